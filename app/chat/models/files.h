// SPDX-License-Identifier: Apache-2.0
// Paths for the file picker: places to begin at, what a typed path is, paths as URLs and back.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QObject>
#include <QUrl>

namespace runnel::chat {

/// Whether the system offers something that draws: a render node or a driver's device in this folder (/dev).
bool hasGpu(const QString& devices);

class Files : public QObject {
  Q_OBJECT
  QML_ELEMENT
  QML_SINGLETON

 public:
  using QObject::QObject;

  Q_INVOKABLE QString home() const;
  Q_INVOKABLE QString downloads() const;  // home where there is no such folder

  /// What somebody typed as an absolute path: "~/x" lies at home, "x" in `folder`.
  Q_INVOKABLE QString absolute(const QString& typed, const QString& folder) const;
  Q_INVOKABLE bool isFolder(const QString& path) const;  // and can be listed
  Q_INVOKABLE bool isFile(const QString& path) const;
  Q_INVOKABLE QString folderOf(const QString& path) const;  // of "/": "/"
  Q_INVOKABLE QString nameOf(const QString& path) const;
  Q_INVOKABLE QString inFolder(const QString& folder, const QString& name) const;

  Q_INVOKABLE QUrl toUrl(const QString& path) const;
  Q_INVOKABLE QString sizeText(double bytes) const;
};

}  // namespace runnel::chat
