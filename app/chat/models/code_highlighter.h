// SPDX-License-Identifier: Apache-2.0
// Colours for code in answers: comments, strings, numbers and the keywords most languages share.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QColor>
#include <QQuickTextDocument>
#include <QSyntaxHighlighter>

namespace runnel::chat {

class CodeHighlighter : public QSyntaxHighlighter {
  Q_OBJECT
  QML_ELEMENT
  Q_PROPERTY(QQuickTextDocument* target READ target WRITE setTarget NOTIFY changed)
  Q_PROPERTY(QString language MEMBER m_language NOTIFY changed)
  Q_PROPERTY(QColor keywordColor MEMBER m_keyword NOTIFY changed)
  Q_PROPERTY(QColor stringColor MEMBER m_string NOTIFY changed)
  Q_PROPERTY(QColor numberColor MEMBER m_number NOTIFY changed)
  Q_PROPERTY(QColor commentColor MEMBER m_comment NOTIFY changed)

 public:
  explicit CodeHighlighter(QObject* parent = nullptr);

  QQuickTextDocument* target() const { return m_target; }
  void setTarget(QQuickTextDocument* target);

 Q_SIGNALS:
  void changed();

 protected:
  void highlightBlock(const QString& text) override;

 private:
  bool hashComments() const;
  bool slashComments() const;

  QQuickTextDocument* m_target = nullptr;
  QString m_language;
  QColor m_keyword, m_string, m_number, m_comment;
};

}  // namespace runnel::chat
