// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/files.h"

#include <QDir>
#include <QFileInfo>
#include <QLocale>
#include <QStandardPaths>

namespace runnel::chat {

bool hasGpu(const QString& devices) {
  const QStringList nodes = QDir(devices + QStringLiteral("/dri"))
                                .entryList({QStringLiteral("render*")}, QDir::System | QDir::Files);
  return !nodes.isEmpty() || QFileInfo::exists(devices + QStringLiteral("/nvidia0")) ||
         QFileInfo::exists(devices + QStringLiteral("/kgsl-3d0"));
}

QString Files::home() const { return QDir::homePath(); }

QString Files::downloads() const {
  const QString folder = QStandardPaths::writableLocation(QStandardPaths::DownloadLocation);
  return isFolder(folder) ? folder : home();
}

QString Files::absolute(const QString& typed, const QString& folder) const {
  const QString path = typed.trimmed();
  if (path == QStringLiteral("~") || path.startsWith(QStringLiteral("~/")))
    return QDir::cleanPath(home() + path.mid(1));
  return QDir::cleanPath(QDir(folder).absoluteFilePath(path));
}

bool Files::isFolder(const QString& path) const {
  const QFileInfo info(path);
  return info.isDir() && info.isReadable() && info.isExecutable();
}

bool Files::isFile(const QString& path) const { return QFileInfo(path).isFile(); }
QString Files::folderOf(const QString& path) const { return QFileInfo(path).absolutePath(); }
QString Files::nameOf(const QString& path) const { return QFileInfo(path).fileName(); }

QString Files::inFolder(const QString& folder, const QString& name) const {
  return QDir::cleanPath(QDir(folder).filePath(name));
}

QUrl Files::toUrl(const QString& path) const { return QUrl::fromLocalFile(path); }

QString Files::sizeText(double bytes) const {
  return QLocale().formattedDataSize(static_cast<qint64>(bytes), 1, QLocale::DataSizeSIFormat);
}

}  // namespace runnel::chat
