// SPDX-License-Identifier: Apache-2.0
// Marks the words of a text that others beside it do not have.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QColor>
#include <QQuickTextDocument>
#include <QSet>
#include <QStringList>
#include <QSyntaxHighlighter>

namespace runnel::chat {

/// The words of `text`, in small letters.
QSet<QString> wordsOf(const QString& text);

class WordMarker : public QSyntaxHighlighter {
  Q_OBJECT
  QML_ELEMENT
  Q_PROPERTY(QQuickTextDocument* target READ target WRITE setTarget NOTIFY changed)
  // Empty: nothing is marked.
  Q_PROPERTY(QStringList others READ others WRITE setOthers NOTIFY changed)
  Q_PROPERTY(QColor ground MEMBER m_ground NOTIFY changed)

 public:
  explicit WordMarker(QObject* parent = nullptr);

  QQuickTextDocument* target() const { return m_target; }
  void setTarget(QQuickTextDocument* target);
  QStringList others() const { return m_others; }
  void setOthers(const QStringList& others);

 Q_SIGNALS:
  void changed();

 protected:
  void highlightBlock(const QString& text) override;

 private:
  void attach();

  QQuickTextDocument* m_target = nullptr;
  QStringList m_others;
  QSet<QString> m_known;
  QColor m_ground;
};

}  // namespace runnel::chat
