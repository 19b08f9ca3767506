// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/model_picker.h"

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QLocale>
#include <QLoggingCategory>
#include <QRegularExpression>
#include <algorithm>
#include <utility>

#include "runtime/io/gguf_parts.h"

namespace runnel::chat {
namespace {

QString sizeText(quint64 bytes) {
  return QLocale().formattedDataSize(static_cast<qint64>(bytes), 1, QLocale::DataSizeSIFormat);
}

QString countText(qint64 n) {
  const QLocale locale;
  if (n >= 1'000'000'000) return locale.toString(static_cast<double>(n) / 1e9, 'f', 1) + " G";
  return locale.toString(static_cast<double>(n) / 1e6, 'f', 1) + QStringLiteral(" M");
}

// What Linux could give a new program; 0: unknown.
quint64 availableBytes() {
  QFile file(QStringLiteral("/proc/meminfo"));
  if (!file.open(QIODevice::ReadOnly)) return 0;
  for (const QByteArray& line : file.readAll().split('\n')) {
    if (!line.startsWith("MemAvailable:")) continue;
    return line.simplified().split(' ').value(1).toULongLong() * 1024;
  }
  return 0;
}

// Says what runs where; for finding out why something is slow: QT_LOGGING_RULES="runnel.chat=true".
Q_LOGGING_CATEGORY(logged, "runnel.chat", QtWarningMsg)

// Whether the CPU may succeed where a device gave this error.
bool mayFallBack(ErrorCode code) {
  return code == ErrorCode::device || code == ErrorCode::out_of_memory ||
         code == ErrorCode::unsupported || code == ErrorCode::not_found;
}

/// Beside the file's own: what the default model was trained with, too.
constexpr int kSmallerWindows[] = {60, 124};

bool isModelFile(const QString& file) {
  return file.endsWith(QStringLiteral(".gguf"), Qt::CaseInsensitive);
}

}  // namespace

ModelPicker::ModelPicker(ChatEngine& engine, Settings& settings, QStringList folders,
                         QObject* parent)
    : QAbstractListModel(parent),
      m_engine(engine),
      m_settings(settings),
      m_folders(std::move(folders)) {
  connect(&engine, &ChatEngine::inspected, this, [this](const ModelFacts& facts) {
    for (int i = 0; i < static_cast<int>(m_rows.size()); ++i) {
      if (m_rows.at(i).file != facts.file) continue;
      m_rows[i] = facts;
      Q_EMIT dataChanged(index(i), index(i));
    }
  });
  connect(&engine, &ChatEngine::devicesListed, this, [this](const QVector<Device>& devices) {
    m_devices = {QVariantMap{{QStringLiteral("id"), QStringLiteral("auto")},
                             {QStringLiteral("name"),
                              QCoreApplication::translate("Runnel", "Automatic (best available)")},
                             {QStringLiteral("detail"), QString()}}};
    for (const Device& d : devices) {
      if (d.id == QStringLiteral("reference")) continue;  // for tests: very slow
      const QString memory = d.memoryBytes > 0 ? sizeText(d.memoryBytes) : QString();
      m_devices.push_back(QVariantMap{
          {QStringLiteral("id"), d.id},
          {QStringLiteral("name"), d.id + QStringLiteral(" · ") + d.name},
          {QStringLiteral("detail"), QStringList({d.detail, memory})
                                         .filter(QRegularExpression(QStringLiteral(".")))
                                         .join(QStringLiteral(" · "))}});
    }
    Q_EMIT devicesChanged();
  });
  connect(&engine, &ChatEngine::loadProgress, this, [this](double fraction) {
    if (m_state != Loading) return;
    m_progress = fraction;
    Q_EMIT stateChanged();
  });
  connect(&engine, &ChatEngine::modelLoaded, this, [this](const LoadedModel& model) {
    m_loaded = model;
    if (m_loaded.name.isEmpty()) m_loaded.name = QFileInfo(model.file).completeBaseName();
    if (model.file == m_wanted) m_wanted.clear();
    m_state = m_wanted.isEmpty() ? Loaded : Loading;
    if (model.file == m_chosen || m_settings.modelFile.isEmpty()) m_settings.modelFile = model.file;
    if (model.file == m_chosen) m_chosen.clear();
    qCInfo(logged).noquote() << "model" << m_loaded.name << "on" << m_loaded.device;
    m_settings.recommend(model.sampling);  // tells of the file, too
    Q_EMIT stateChanged();
    if (!m_deviceBefore.isEmpty() && m_state == Loaded) {
      Q_EMIT fellBack(std::exchange(m_deviceBefore, QString()), m_deviceProblem);
    }
    if (!m_rows.isEmpty()) Q_EMIT dataChanged(index(0), index(rowCount() - 1));
  });
  connect(&engine, &ChatEngine::textWritten, this, [last = quint64{0}](quint64 ticket) mutable {
    if (std::exchange(last, ticket) != ticket) qCInfo(logged) << "first words";
  });
  connect(&engine, &ChatEngine::answered, this, [this](quint64, const AnswerReport& report) {
    qCInfo(logged).noquote() << report.written << "tokens on" << m_loaded.device;
  });
  connect(&engine, &ChatEngine::modelFailed, this, [this](const Problem& problem) {
    if (m_deviceBefore.isEmpty() && !m_wanted.isEmpty() && fallBack(problem)) return;
    if (!m_deviceBefore.isEmpty() && problem.code != ErrorCode::cancelled) {
      // The CPU could not either: it was not for the device.
      m_settings.device = std::exchange(m_deviceBefore, QString());
      Q_EMIT m_settings.changed();
    }
    // A load that another one replaced was cancelled; that one goes on.
    if (problem.code == ErrorCode::cancelled && !m_cancelled) return;
    if (problem.code != ErrorCode::cancelled) Q_EMIT failed(problem);
    m_chosen.clear();
    m_unusable = m_wanted;
    m_wanted.clear();
    m_state = m_loaded.file.isEmpty() ? None : Loaded;
    Q_EMIT stateChanged();
    if (!m_rows.isEmpty()) Q_EMIT dataChanged(index(0), index(rowCount() - 1));
  });
}

int ModelPicker::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_rows.size());
}

QHash<int, QByteArray> ModelPicker::roleNames() const {
  return {{FileRole, "file"},     {TitleRole, "title"},     {FactsRole, "facts"},
          {MemoryRole, "memory"}, {ProblemRole, "problem"}, {CurrentRole, "current"},
          {FitsRole, "fits"}};
}

QVariant ModelPicker::data(const QModelIndex& index, int role) const {
  if (index.row() < 0 || index.row() >= m_rows.size()) return {};
  const ModelFacts& row = m_rows.at(index.row());
  const int unused =
      m_settings.windowSlots > 0 ? std::max(0, row.windowSlots - m_settings.windowSlots) : 0;
  const quint64 state = row.stateBytes - static_cast<quint64>(unused) * row.windowSlotBytes;
  const quint64 needed = row.weightBytes + state;
  switch (role) {
    case FileRole:
      return row.file;
    case TitleRole:
    case Qt::DisplayRole:
      return row.name.isEmpty() ? QFileInfo(row.file).completeBaseName() : row.name;
    case FactsRole:
      if (row.parameters == 0) return QString();
      return QCoreApplication::translate("Runnel", "%1 parameters · %2 · %3 layers")
          .arg(countText(row.parameters), row.quantisation)
          .arg(row.layers);
    case MemoryRole:
      if (needed == 0) return QString();
      return QCoreApplication::translate("Runnel",
                                         "Needs %1: %2 for the model, %3 for a chat of any length")
          .arg(sizeText(needed), sizeText(row.weightBytes), sizeText(state));
    case ProblemRole:
      return row.problem;
    case CurrentRole:
      return m_state == Loading ? row.file == m_wanted : row.file == m_loaded.file;
    case FitsRole: {
      const quint64 available = availableBytes();
      return available == 0 || needed < available;
    }
    default:
      return {};
  }
}

QString ModelPicker::stateSize() const { return sizeText(m_loaded.stateBytes); }
QString ModelPicker::weightSize() const { return sizeText(m_loaded.weightBytes); }
QString ModelPicker::freeMemory() { return sizeText(availableBytes()); }

QStringList ModelPicker::files() const {
  QStringList files = m_settings.list(QStringLiteral("window/modelFiles"));
  files.removeIf([](const QString& file) { return !QFileInfo::exists(file); });
  for (const QString& folder : m_folders) {
    const QDir directory(folder);
    for (const QString& name : directory.entryList({QStringLiteral("*.gguf")}, QDir::Files)) {
      const auto part = gguf::part_name(name.toStdString());
      if (part && part->number > 1) continue;  // the first part stands for the model
      files.push_back(QDir::cleanPath(directory.absoluteFilePath(name)));
    }
  }
  files.removeDuplicates();
  return files;
}

void ModelPicker::refresh() {
  beginResetModel();
  QVector<ModelFacts> rows;
  for (const QString& file : files()) {
    const auto known = std::find_if(m_rows.cbegin(), m_rows.cend(),
                                    [&](const ModelFacts& row) { return row.file == file; });
    rows.push_back(known != m_rows.cend() ? *known : ModelFacts{.file = file});
  }
  m_rows = std::move(rows);
  endResetModel();
  Q_EMIT countChanged();
  for (const ModelFacts& row : std::as_const(m_rows)) m_engine.inspect(row.file);
  m_engine.listDevices();
}

bool ModelPicker::loadInitial() {
  const QStringList found = files();
  const QString last = m_settings.modelFile;
  const QString file = !last.isEmpty() && QFileInfo::exists(last) ? last : found.value(0);
  if (file.isEmpty()) return false;
  choose(file);
  return true;
}

void ModelPicker::choose(const QString& file) {
  m_chosen = file;
  m_unusable.clear();
  load(file);
  Q_EMIT chosen();
}

void ModelPicker::use(const QString& file, bool again) {
  if (file.isEmpty() || file == (m_wanted.isEmpty() ? m_loaded.file : m_wanted)) return;
  if (file == m_unusable && !again) return;
  load(file);
}

QString ModelPicker::find(const QString& file) const {
  if (QFileInfo(file).isAbsolute() && QFileInfo::exists(file)) return file;
  const QString name = QFileInfo(file).fileName();
  QStringList there = files();
  there.push_front(m_settings.modelFile);
  for (const QString& other : std::as_const(there)) {
    if (QFileInfo(other).fileName() == name && QFileInfo::exists(other)) return other;
  }
  return {};
}

QString ModelPicker::nameOf(const QString& file) {
  static const QRegularExpression part(QStringLiteral("-\\d{5}-of-\\d{5}$"));
  return QFileInfo(file).completeBaseName().remove(part);
}

QVariantList ModelPicker::choices() const {
  QVariantList list;
  for (const QString& file : files()) {
    list.push_back(
        QVariantMap{{QStringLiteral("file"), file}, {QStringLiteral("name"), nameOf(file)}});
  }
  return list;
}

QString ModelPicker::titleOf(const QString& file) const {
  if (file == m_loaded.file) return m_loaded.name;
  for (const ModelFacts& row : m_rows) {
    if (row.file == file && !row.name.isEmpty()) return row.name;
  }
  return QFileInfo(file).completeBaseName();
}

void ModelPicker::load(const QString& file) {
  m_cancelled = false;
  m_wanted = file;
  m_state = Loading;
  m_progress = 0;
  m_engine.loadModel(file, m_settings.device, m_settings.threads, m_settings.windowSlots);
  Q_EMIT stateChanged();
  if (!m_rows.isEmpty()) Q_EMIT dataChanged(index(0), index(rowCount() - 1));
}

bool ModelPicker::add(const QUrl& url) {
  const QString file = url.toLocalFile();
  if (file.isEmpty() || !isModelFile(file) || !QFileInfo(file).isFile()) return false;
  QStringList own = m_settings.list(QStringLiteral("window/modelFiles"));
  own.removeAll(file);
  own.push_front(file);
  m_settings.remember(QStringLiteral("modelFiles"), own);
  refresh();
  choose(file);
  return true;
}

void ModelPicker::cancel() {
  m_cancelled = true;
  m_engine.cancelLoading();
}

bool ModelPicker::fallBack(const Problem& problem) {
  const QString device = m_settings.device;
  if (device == QStringLiteral("cpu") || device == QStringLiteral("auto")) return false;
  if (!mayFallBack(problem.code)) return false;
  qCInfo(logged).noquote() << "device" << device << "cannot be used:" << problem.message;
  m_deviceBefore = device;
  m_deviceProblem = problem;
  m_settings.device = QStringLiteral("cpu");
  Q_EMIT m_settings.changed();
  reload();
  return true;
}

void ModelPicker::chooseDevice(const QString& id) {
  m_deviceBefore.clear();
  if (id == m_settings.device) return;
  m_settings.device = id;
  Q_EMIT m_settings.changed();
  reload();
}

QVariantList ModelPicker::windows() const {
  QVariantList windows;
  for (const int slots : kSmallerWindows) {
    if (slots < m_loaded.fileWindowSlots) windows.push_back(slots);
  }
  if (m_loaded.fileWindowSlots > 0) windows.push_back(m_loaded.fileWindowSlots);
  return windows;
}

void ModelPicker::chooseWindow(int slots) {
  const int chosen = slots < m_loaded.fileWindowSlots ? slots : 0;
  if (chosen == m_settings.windowSlots) return;
  m_settings.windowSlots = chosen;
  Q_EMIT m_settings.changed();
  reload();
}

void ModelPicker::reload() {
  const QString file = m_wanted.isEmpty() ? m_loaded.file : m_wanted;
  if (!file.isEmpty()) load(file);
}

}  // namespace runnel::chat
