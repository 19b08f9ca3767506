// SPDX-License-Identifier: Apache-2.0
// A small window out of which a file can be dragged into another program, as out of a file manager.
//   runnel_chat_drag_source FILE X Y      leaves after the drag; 0: something took the file
#include <QDrag>
#include <QGuiApplication>
#include <QMimeData>
#include <QMouseEvent>
#include <QPainter>
#include <QRasterWindow>
#include <QTimer>
#include <QUrl>

namespace {

class Source : public QRasterWindow {
 public:
  explicit Source(const QString& file) : m_file(file) {}

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    painter.fillRect(0, 0, width(), height(), Qt::darkCyan);
  }
  void mouseMoveEvent(QMouseEvent* event) override {
    if (!(event->buttons() & Qt::LeftButton) || m_dragging) return;
    m_dragging = true;
    auto* data = new QMimeData;
    data->setUrls({QUrl::fromLocalFile(m_file)});
    auto* drag = new QDrag(this);
    drag->setMimeData(data);
    const int result = drag->exec(Qt::CopyAction) == Qt::CopyAction ? 0 : 1;
    // The other program asks for the file's name only now.
    QTimer::singleShot(1500, this, [result] { QGuiApplication::exit(result); });
  }

 private:
  const QString m_file;
  bool m_dragging = false;
};

}  // namespace

int main(int argc, char* argv[]) {
  QGuiApplication program(argc, argv);
  const QStringList arguments = QGuiApplication::arguments();
  if (arguments.size() != 4) return 2;
  Source source(arguments.at(1));
  source.setFlags(Qt::FramelessWindowHint | Qt::WindowStaysOnTopHint);
  source.setGeometry(arguments.at(2).toInt(), arguments.at(3).toInt(), 48, 48);
  source.show();
  return QGuiApplication::exec();
}
