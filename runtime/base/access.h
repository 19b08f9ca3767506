// SPDX-License-Identifier: Apache-2.0
// The way into the public classes for the library's own parts and for tests. Installed headers name this class as a
// friend and show nothing else of what is inside.
#pragma once

#include <utility>

namespace runnel {

class Access {
 public:
  /// `Inside<T>::Impl`: what T points to.
  template <class T>
  struct Inside {
    using Impl = typename T::Impl;
  };

  /// What `of` points to; const or not is up to the callers, as with any pointer.
  template <class T>
  static typename T::Impl& impl(const T& of) {
    return *of.impl_;
  }

  /// The owner of it, for those that take it away.
  template <class T>
  static auto& owner(T& of) {
    return of.impl_;
  }

  template <class T>
  static const auto& data(const T& of) {
    return *of.data_;
  }

  /// A T by a constructor that others cannot call, as a value or on the heap.
  template <class T, class... From>
  static T make(From&&... from) {
    return T(std::forward<From>(from)...);
  }
  template <class T, class... From>
  static T* make_new(From&&... from) {
    return new T(std::forward<From>(from)...);
  }
};

}  // namespace runnel
