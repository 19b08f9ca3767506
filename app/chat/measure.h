// SPDX-License-Identifier: Apache-2.0
// runnel-chat --measure: how long the start took, how soon an answer begins, how late the window is
// while the model computes. Prints JSON and quits.
#pragma once

#include <QObject>

namespace runnel::chat {

class Application;

/// Seconds since the process was started, by the kernel's clock (steps of 10 ms).
double secondsSinceExec();

/// Begins the measurement; the program ends with it.
void measure(Application& application);

/// Imports a long chat, then measures how it opens and scrolls by the wheel, prints JSON and leaves the program.
void measureLong(Application& application, const QString& file);

}  // namespace runnel::chat
