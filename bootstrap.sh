#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 to a chat, or to a tested build: installs what is missing, builds, starts.
#   ./bootstrap.sh chat [ARGS…]   chat with the default model (ARGS go to `runnel chat`)
#   ./bootstrap.sh test [REGEX]   build and run the tests
#   ./bootstrap.sh app [ARGS…]    the chat app in a window (Qt 6; ARGS go to `runnel-chat`)
#   ./bootstrap.sh install SET…   only install packages: build, test, ci, vulkan, serve, package, app, screen
set -eu
cd "$(dirname "$0")"

build_packages="g++ cmake ninja-build ccache pkg-config nlohmann-json3-dev libcli11-dev libpcre2-dev libxxhash-dev libsentencepiece-dev libzstd-dev libsqlite3-dev libboost1.81-dev"
vulkan_packages="libvulkan-dev glslang-tools spirv-tools mesa-vulkan-drivers vulkan-validationlayers"
app_packages="qt6-base-dev qt6-declarative-dev qt6-tools-dev qt6-tools-dev-tools qt6-l10n-tools qt6-pdf-dev libzip-dev libpugixml-dev libqt6svg6 qml6-module-qtqml qml6-module-qtqml-workerscript qml6-module-qtquick qml6-module-qtquick-controls qml6-module-qtquick-layouts qml6-module-qtquick-templates qml6-module-qtquick-window qml6-module-qttest fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji fonts-dejavu-core"
test_packages="libgtest-dev libgmock-dev python3"
screen_packages="xvfb xdotool imagemagick pngquant python3"
ci_packages="git bc python3 clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev codespell g++-aarch64-linux-gnu qemu-user googletest abigail-tools libzip-dev libpugixml-dev poppler-utils"
serve_packages="python3 python3-venv wrk curl chromium nginx-light haproxy"
package_packages="python3 debootstrap lintian dpkg-dev file xz-utils $vulkan_packages $app_packages"

install() {
  wanted=""
  for set in "$@"; do
    case $set in
      build) wanted="$wanted $build_packages" ;;
      test) wanted="$wanted $test_packages" ;;
      ci) wanted="$wanted $ci_packages" ;;
      serve) wanted="$wanted $serve_packages" ;;
      package) wanted="$wanted $package_packages" ;;
      vulkan) wanted="$wanted $vulkan_packages" ;;
      app) wanted="$wanted $app_packages" ;;
      screen) wanted="$wanted $screen_packages" ;;
      *) echo "bootstrap.sh: no package set \"$set\", expected build, test, ci, vulkan, serve, package, app or screen" >&2; exit 2 ;;
    esac
  done
  missing=""
  for package in $wanted; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  echo "Installing:$missing"
  as_root=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "bootstrap.sh: as root, please: apt-get install$missing" >&2; exit 1; }
    as_root=sudo
  fi
  $as_root apt-get update -q >/dev/null
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing >/dev/null
}

configure() {
  if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
  cmake --preset "$@" >/dev/null
}

command=${1:-help}
[ $# -eq 0 ] || shift
case $command in
  chat)
    install build
    configure cpu -DRUNNEL_TESTS=OFF -DRUNNEL_EXAMPLES=OFF
    cmake --build --preset cpu --target runnel_cli
    exec build/cpu/bin/runnel chat "$@"
    ;;
  test)
    install build test
    configure cpu -DRUNNEL_TESTS=ON -DRUNNEL_EXAMPLES=ON
    cmake --build --preset cpu
    if [ $# -gt 0 ]; then ctest --preset cpu -R "$1"; else ctest --preset cpu; fi
    ;;
  app)
    install build app
    configure app -DRUNNEL_TESTS=OFF
    cmake --build --preset app --target runnel_chat
    exec build/app/bin/runnel-chat "$@"
    ;;
  install) install "$@" ;;
  *)
    sed -n '3,7s/^# \{0,1\}//p' "$0"
    [ "$command" = help ] || exit 2
    ;;
esac
