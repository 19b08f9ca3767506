// SPDX-License-Identifier: Apache-2.0
// The plain values that travel between the engine's threads and the window.
#pragma once

#include <QHash>
#include <QString>
#include <QStringList>
#include <QVector>

#include "runnel/result.h"
#include "runnel/sampling.h"

namespace runnel::chat {

/// Why an answer is not whole.
enum class Cut { None, Stopped, Length };

/// A passage of an earlier message that was read again before a question.
struct Quoted {
  qint64 message = 0;  // that it is of; 0: no longer known
  QString text;
};

struct Message {
  qint64 id = 0;
  qint64 parent = 0;  // 0: the first of its branch
  QString role;       // "system", "user", "assistant"
  QString text;
  QString name;        // what somebody called this place
  qint64 created = 0;  // ms since 1970
  bool complete = true;
  bool pinned = false;
  Cut cut = Cut::None;
  bool instant = false;         // its state is saved: coming back here reads nothing again
  QString thought = {};         // of an answer: what was thought before it
  qint64 thoughtMs = 0;         // and for how long
  QVector<Quoted> quoted = {};  // of a question: what was read again before it
};

/// Something deleted that can still be brought back.
struct DeletedRow {
  qint64 trash = 0;
  qint64 at = 0;  // ms since 1970
  qint64 conversation = 0;
  bool whole = false;  // all of the chat
  qint64 messages = 0;
  QString name;     // the chat's
  QString excerpt;  // the beginning of what went
};

struct ConversationRow {
  qint64 id = 0;
  QString name;
  qint64 updated = 0;  // ms since 1970
  qint64 messages = 0;
  bool pinned = false;
  qint64 folder = 0;  // 0: in none
};

struct FolderRow {
  qint64 id = 0;
  QString name;
  bool folded = false;
};

struct ConversationTree {
  qint64 id = 0;
  QString name;
  qint64 head = 0;
  QVector<Message> messages;  // parents before children
  QString settings = {};      // of its own, a JSON object; empty: none
};

/// What answers must be.
struct ReplyForm {
  enum Kind { Free, Json, Schema };
  Kind kind = Free;
  QString name = {};    // of the schema's file
  QString schema = {};  // its text
  bool operator==(const ReplyForm&) const = default;
};

struct SearchResult {
  qint64 conversation = 0;
  qint64 message = 0;
  QString name;
  QString role;
  QString excerpt;  // matches between « and »
};

struct StoreNumbers {
  quint64 snapshots = 0;
  quint64 snapshotBytes = 0;
  quint64 databaseBytes = 0;
};

/// What could not be done, and with which kind of file.
enum class About { Nothing, Model, Library, Import, Export, Form };

/// Why the system refused, where it says so.
enum class Refusal { Unknown, Full, Forbidden };

/// What is wrong with a file that is brought in, where that is known.
enum class Flaw { Unknown, TooLarge, Damaged };

/// What went wrong; the message is the library's, for the details.
struct Problem {
  ErrorCode code = ErrorCode::internal;
  QString message;
  About about = About::Nothing;
  QString file = {};
  Refusal refusal = Refusal::Unknown;
  Flaw flaw = Flaw::Unknown;
  qint64 bytes = 0;  // of a file that is too large, and how many it may have
  qint64 mostBytes = 0;
};

/// What is done about a library that cannot be used as it is.
enum class Replace {
  Look,     // what can be read of it is shown from a copy; the file stays where it is
  Salvage,  // what can be read goes into a new library in its place
  Anew      // an empty library in its place
};

/// A library that took the place of another.
struct Replaced {
  Replace how = Replace::Anew;  // Anew: no chat of the old one is in it; else they kept their ids
  bool elsewhere = false;       // another program did it; `how` and `file` are all that is known
  QString old;                  // where the other file lies now
  QString file;                 // the new one
  qint64 conversations = 0;
  qint64 messages = 0;
  qint64 unreadable = 0;
};

/// What a model file says about itself; nothing of it is loaded.
struct ModelFacts {
  QString file;
  QString name;
  qint64 parameters = 0;
  quint64 weightBytes = 0;
  quint64 stateBytes = 0;       // of one conversation, whatever its length
  int windowSlots = 0;          // 0: none
  quint64 windowSlotBytes = 0;  // what the state shrinks by for each that is not used
  QString quantisation;         // the type most of the weights have
  qint64 layers = 0;
  qint64 width = 0;
  qint64 vocabulary = 0;
  bool canChat = false;
  QString problem;  // not empty: cannot be used, and why
};

struct LoadedModel {
  QString file;
  QString name;
  QString device;
  qint64 parameters = 0;
  quint64 weightBytes = 0;
  quint64 stateBytes = 0;
  QString stepProgram;  // what computes one token, and why not a faster one; "ops": there is none
  SamplingOptions sampling;  // as its file recommends
  int windowSlots = 0;       // in use
  int fileWindowSlots = 0;   // 0: the model has none
  QString memoryNote;        // a line where weights take much more than their file, else empty
};

struct Device {
  QString id;
  QString name;
  QString detail;
  quint64 memoryBytes = 0;
};

enum class Act {
  Answer,  // to what is said
  Resume,  // goes on with the answer at `after`, which was cut short
  Write,   // `text` is an answer that the user wrote; nothing is generated
  Try,     // three answers, of which none is stored
  Read,    // the document `text` begins a new conversation `name`; nothing is generated
  Ask,     // `text` is asked of a copy of the state: neither it nor the answer is stored
};

/// One answer: go to `after` in `conversation`, say `text` there (unless empty), answer.
/// Sending, answering again, saying it differently and branching are all this. What is said is stored before it is read.
struct AnswerRequest {
  quint64 ticket = 0;       // comes back with every report on it
  qint64 conversation = 0;  // 0: make one
  qint64 after = 0;         // 0: before the first message
  QString text;
  QString name;    // of a conversation to make
  QString system;  // its system prompt, empty: the model's own
  SamplingOptions sampling;
  int maxTokens = 0;  // of the answer, at most
  Act act = Act::Answer;
  bool fromDraft = false;  // the conversation's draft is sent with it
  qint64 head = 0;         // of Try and Ask: where the talk stands, and stays
  ReplyForm form = {};
  bool remind = false;  // earlier messages that it refers to are read again before it
};

enum class AnswerEnd { Complete, Length, Stopped };

struct AnswerReport {
  AnswerEnd end = AnswerEnd::Complete;
  Message answer;      // id 0: nothing was generated
  QString warning;     // the answer is fine, but …
  qint64 read = 0;     // tokens of the message
  qint64 again = 0;    // tokens that were read before and had to be read again
  qint64 relaid = 0;   // tokens read with it because the model's template writes earlier turns anew
  qint64 written = 0;  // tokens of the answer
  double firstTokenMs = 0;
  double tokensPerSecond = 0;
  QString hostDraws;             // on a GPU: why it did not draw tokens ahead; empty: it did
  qint64 position = 0;           // tokens of the whole conversation
  QStringList tries = {};        // of Act::Try
  QVector<qint64> instant = {};  // messages up to the answer whose state is saved
};

}  // namespace runnel::chat
