<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="en">
<context>
    <name>AskSheet</name>
    <message>
        <source>What do you still know?</source>
        <translation>What do you still know?</translation>
    </message>
    <message>
        <source>Nothing is added to this chat.</source>
        <translation>Nothing is added to this chat.</translation>
    </message>
    <message>
        <source>Question</source>
        <translation>Question</translation>
    </message>
    <message>
        <source>Stop</source>
        <translation>Stop</translation>
    </message>
    <message>
        <source>Ask</source>
        <translation>Ask</translation>
    </message>
    <message>
        <source>What do you still know of our chat? List names, numbers and facts.</source>
        <translation>What do you still know of our chat? List names, numbers and facts.</translation>
    </message>
</context>
<context>
    <name>ChatSheet</name>
    <message>
        <source>This chat</source>
        <translation>This chat</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>System prompt</translation>
    </message>
    <message>
        <source>As in Settings</source>
        <translation>As in Settings</translation>
    </message>
    <message>
        <source>This chat begins with a document, which takes the place of a system prompt.</source>
        <translation>This chat begins with a document, which takes the place of a system prompt.</translation>
    </message>
    <message>
        <source>With another system prompt this chat is read again from the start, as a new branch. The branch you see stays as it is.</source>
        <translation>With another system prompt this chat is read again from the start, as a new branch. The branch you see stays as it is.</translation>
    </message>
    <message>
        <source>Given to the model at the start of this chat. Leave empty to use the model&apos;s own.</source>
        <translation>Given to the model at the start of this chat. Leave empty to use the model&apos;s own.</translation>
    </message>
    <message>
        <source>For example: Answer in one sentence.</source>
        <translation>For example: Answer in one sentence.</translation>
    </message>
    <message>
        <source>Start a new branch with it</source>
        <translation>Start a new branch with it</translation>
    </message>
    <message>
        <source>Model</source>
        <translation>Model</translation>
    </message>
    <message>
        <source>Loaded when this chat is opened. Another model reads the text of the chat again.</source>
        <translation>Loaded when this chat is opened. Another model reads the text of the chat again.</translation>
    </message>
    <message>
        <source>%1 (missing)</source>
        <translation>%1 (missing)</translation>
    </message>
    <message>
        <source>As in Settings (%1)</source>
        <translation>As in Settings (%1)</translation>
    </message>
    <message>
        <source>Sampling</source>
        <translation>Sampling</translation>
    </message>
    <message>
        <source>In Settings it is %1.</source>
        <translation>In Settings it is %1.</translation>
    </message>
    <message>
        <source>Maximum answer length</source>
        <translation>Maximum answer length</translation>
    </message>
    <message>
        <source>In tokens. A token is about three quarters of a word.</source>
        <translation>In tokens. A token is about three quarters of a word.</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Seed</translation>
    </message>
    <message>
        <source>With the same seed, the same chat gets the same answer.</source>
        <translation>With the same seed, the same chat gets the same answer.</translation>
    </message>
    <message>
        <source>random</source>
        <translation>random</translation>
    </message>
</context>
<context>
    <name>CodeBlock</name>
    <message>
        <source>Copy</source>
        <translation>Copy</translation>
    </message>
    <message>
        <source>Copy code</source>
        <translation>Copy code</translation>
    </message>
    <message>
        <source>Code block, %1</source>
        <translation>Code block, %1</translation>
    </message>
</context>
<context>
    <name>CompareSheet</name>
    <message>
        <source>Compare versions</source>
        <translation>Compare versions</translation>
    </message>
    <message>
        <source>Previous version</source>
        <translation>Previous version</translation>
    </message>
    <message>
        <source>Version %1 of %2</source>
        <translation>Version %1 of %2</translation>
    </message>
    <message>
        <source>Next version</source>
        <translation>Next version</translation>
    </message>
    <message>
        <source>Continue with this version</source>
        <translation>Continue with this version</translation>
    </message>
</context>
<context>
    <name>Composer</name>
    <message>
        <source>Message</source>
        <translation>Message</translation>
    </message>
    <message>
        <source>Stop</source>
        <translation>Stop</translation>
    </message>
    <message>
        <source>Send</source>
        <translation>Send</translation>
    </message>
    <message>
        <source>Sent when the other answer is done.</source>
        <translation>Sent when the other answer is done.</translation>
    </message>
    <message>
        <source>Another chat is being answered. Enter queues your message.</source>
        <translation>Another chat is being answered. Enter queues your message.</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Cancel</translation>
    </message>
    <message>
        <source>Answers come as JSON by %1.</source>
        <translation>Answers come as JSON by %1.</translation>
    </message>
    <message>
        <source>Answers come as JSON.</source>
        <translation>Answers come as JSON.</translation>
    </message>
    <message>
        <source>Answer freely</source>
        <translation>Answer freely</translation>
    </message>
    <message>
        <source>Answer as</source>
        <translation>Answer as</translation>
    </message>
    <message>
        <source>Free text</source>
        <translation>Free text</translation>
    </message>
    <message>
        <source>JSON by a schema…</source>
        <translation>JSON by a schema…</translation>
    </message>
</context>
<context>
    <name>ConversationPane</name>
    <message>
        <source>New chat</source>
        <translation>New chat</translation>
    </message>
    <message>
        <source>Choose a model…</source>
        <translation>Choose a model…</translation>
    </message>
    <message>
        <source>Model: %1</source>
        <translation>Model: %1</translation>
    </message>
    <message>
        <source>Messages</source>
        <translation>Messages</translation>
    </message>
    <message>
        <source>Show the chat list</source>
        <translation>Show the chat list</translation>
    </message>
    <message>
        <source>Loading… %1%</source>
        <translation>Loading… %1%</translation>
    </message>
    <message>
        <source>Show the timeline</source>
        <translation>Show the timeline</translation>
    </message>
    <message>
        <source>Jump to latest</source>
        <translation>Jump to latest</translation>
    </message>
    <message>
        <source>You went back. Your next message starts a new branch.</source>
        <translation>You went back. Your next message starts a new branch.</translation>
    </message>
    <message>
        <source>Get an answer</source>
        <translation>Get an answer</translation>
    </message>
    <message>
        <source>Back to where I was</source>
        <translation>Back to where I was</translation>
    </message>
    <message>
        <source>Answer finished.</source>
        <translation>Answer finished.</translation>
    </message>
    <message>
        <source>Answering…</source>
        <translation>Answering…</translation>
    </message>
    <message>
        <source>This chat</source>
        <translation>This chat</translation>
    </message>
</context>
<context>
    <name>DeleteDialog</name>
    <message numerus="yes">
        <source>Delete %n messages on %1 branches?</source>
        <translation>
            <numerusform>Delete %n message on %1 branches?</numerusform>
            <numerusform>Delete %n messages on %1 branches?</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Delete %n messages?</source>
        <translation>
            <numerusform>Delete %n message?</numerusform>
            <numerusform>Delete %n messages?</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n pinned places go too.</source>
        <translation>
            <numerusform>%n pinned place goes too.</numerusform>
            <numerusform>%n pinned places go too.</numerusform>
        </translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Cancel</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Delete</translation>
    </message>
</context>
<context>
    <name>EmptyPage</name>
    <message>
        <source>What shall we talk about?</source>
        <translation>What shall we talk about?</translation>
    </message>
    <message>
        <source>Choose a model…</source>
        <translation>Choose a model…</translation>
    </message>
    <message>
        <source>How do I make a good cup of tea?</source>
        <translation>How do I make a good cup of tea?</translation>
    </message>
    <message>
        <source>Write a short poem about a river.</source>
        <translation>Write a short poem about a river.</translation>
    </message>
    <message>
        <source>Choose a model to start.</source>
        <translation>Choose a model to start.</translation>
    </message>
    <message>
        <source>Everything stays on this device. You can come back to any message and continue from there.</source>
        <translation>Everything stays on this device. You can come back to any message and continue from there.</translation>
    </message>
    <message>
        <source>Explain what a queue is, with a code example.</source>
        <translation>Explain what a queue is, with a code example.</translation>
    </message>
    <message>
        <source>Take a tour in three steps</source>
        <translation>Take a tour in three steps</translation>
    </message>
    <message>
        <source>No, thanks</source>
        <translation>No, thanks</translation>
    </message>
</context>
<context>
    <name>ExportDialog</name>
    <message>
        <source>Export this chat</source>
        <translation>Export this chat</translation>
    </message>
    <message>
        <source>Markdown</source>
        <translation>Markdown</translation>
    </message>
    <message>
        <source>JSON</source>
        <translation>JSON</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Cancel</translation>
    </message>
    <message>
        <source>Save</source>
        <translation>Save</translation>
    </message>
    <message>
        <source>Choose a folder</source>
        <translation>Choose a folder</translation>
    </message>
    <message>
        <source>All branches. Can be imported again.</source>
        <translation>All branches. Can be imported again.</translation>
    </message>
    <message>
        <source>The branch you see, for reading.</source>
        <translation>The branch you see, for reading.</translation>
    </message>
    <message>
        <source>File name</source>
        <translation>File name</translation>
    </message>
    <message>
        <source>This file already exists and will be replaced.</source>
        <translation>This file already exists and will be replaced.</translation>
    </message>
</context>
<context>
    <name>FieldMenu</name>
    <message>
        <source>Cut</source>
        <translation>Cut</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>Copy</translation>
    </message>
    <message>
        <source>Paste</source>
        <translation>Paste</translation>
    </message>
    <message>
        <source>Select all</source>
        <translation>Select all</translation>
    </message>
</context>
<context>
    <name>FilePicker</name>
    <message>
        <source>Folders</source>
        <translation>Folders</translation>
    </message>
    <message>
        <source>Folders and files</source>
        <translation>Folders and files</translation>
    </message>
    <message>
        <source>Home</source>
        <translation>Home</translation>
    </message>
    <message>
        <source>Downloads</source>
        <translation>Downloads</translation>
    </message>
    <message>
        <source>Use this folder</source>
        <translation>Use this folder</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>Open</translation>
    </message>
    <message>
        <source>No matching files in this folder.</source>
        <translation>No matching files in this folder.</translation>
    </message>
    <message>
        <source>Wrong file type.</source>
        <translation>Wrong file type.</translation>
    </message>
    <message>
        <source>Nothing to open at this path.</source>
        <translation>Nothing to open at this path.</translation>
    </message>
    <message>
        <source>Parent folder</source>
        <translation>Parent folder</translation>
    </message>
    <message>
        <source>Folder path</source>
        <translation>Folder path</translation>
    </message>
    <message>
        <source>Folder or file path</source>
        <translation>Folder or file path</translation>
    </message>
    <message>
        <source>No folders here.</source>
        <translation>No folders here.</translation>
    </message>
</context>
<context>
    <name>FileRow</name>
    <message>
        <source>Folder %1</source>
        <translation>Folder %1</translation>
    </message>
</context>
<context>
    <name>FolderDialog</name>
    <message>
        <source>No folder</source>
        <translation>No folder</translation>
    </message>
    <message>
        <source>Move “%1” to a folder</source>
        <translation>Move “%1” to a folder</translation>
    </message>
    <message>
        <source>New folder</source>
        <translation>New folder</translation>
    </message>
    <message>
        <source>Name of the folder</source>
        <translation>Name of the folder</translation>
    </message>
    <message>
        <source>Create and move</source>
        <translation>Create and move</translation>
    </message>
    <message>
        <source>Create</source>
        <translation>Create</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Cancel</translation>
    </message>
    <message>
        <source>Folders</source>
        <translation>Folders</translation>
    </message>
</context>
<context>
    <name>KeysSheet</name>
    <message>
        <source>Send</source>
        <translation>Send</translation>
    </message>
    <message>
        <source>New line</source>
        <translation>New line</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>New chat</translation>
    </message>
    <message>
        <source>Search all messages</source>
        <translation>Search all messages</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>Models</translation>
    </message>
    <message>
        <source>Export this chat</source>
        <translation>Export this chat</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Settings</translation>
    </message>
    <message>
        <source>Scroll</source>
        <translation>Scroll</translation>
    </message>
    <message>
        <source>Compare the last versions</source>
        <translation>Compare the last versions</translation>
    </message>
    <message>
        <source>Keyboard shortcuts</source>
        <translation>Keyboard shortcuts</translation>
    </message>
    <message>
        <source>Edit the last message</source>
        <translation>Edit the last message</translation>
    </message>
    <message>
        <source>Stop the answer or close a page</source>
        <translation>Stop the answer or close a page</translation>
    </message>
    <message>
        <source>Go to the message field</source>
        <translation>Go to the message field</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>Try again</translation>
    </message>
    <message>
        <source>Undo the last deletion</source>
        <translation>Undo the last deletion</translation>
    </message>
    <message>
        <source>Show or hide the chat list, the timeline</source>
        <translation>Show or hide the chat list, the timeline</translation>
    </message>
    <message>
        <source>Larger, smaller, default text size</source>
        <translation>Larger, smaller, default text size</translation>
    </message>
    <message>
        <source>Back to the place before, forward again</source>
        <translation>Back to the place before, forward again</translation>
    </message>
    <message>
        <source>Quit</source>
        <translation>Quit</translation>
    </message>
    <message>
        <source>Show this list</source>
        <translation>Show this list</translation>
    </message>
    <message>
        <source>Take a tour in three steps</source>
        <translation>Take a tour in three steps</translation>
    </message>
    <message>
        <source>Settings of this chat</source>
        <translation>Settings of this chat</translation>
    </message>
    <message>
        <source>Rename or delete the selected chat or folder</source>
        <translation>Rename or delete the selected chat or folder</translation>
    </message>
    <message>
        <source>Fold or unfold the selected folder or branch</source>
        <translation>Fold or unfold the selected folder or branch</translation>
    </message>
</context>
<context>
    <name>LibraryPane</name>
    <message>
        <source>New chat</source>
        <translation>New chat</translation>
    </message>
    <message>
        <source>Search all messages</source>
        <translation>Search all messages</translation>
    </message>
    <message>
        <source>Clear the search</source>
        <translation>Clear the search</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>Pinned</translation>
    </message>
    <message>
        <source>Today</source>
        <translation>Today</translation>
    </message>
    <message>
        <source>Earlier</source>
        <translation>Earlier</translation>
    </message>
    <message>
        <source>Messages</source>
        <translation>Messages</translation>
    </message>
    <message>
        <source>Chats</source>
        <translation>Chats</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>Models</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Settings</translation>
    </message>
    <message>
        <source>Hide the chat list</source>
        <translation>Hide the chat list</translation>
    </message>
    <message>
        <source>Previous 7 days</source>
        <translation>Previous 7 days</translation>
    </message>
    <message>
        <source>Chat titles</source>
        <translation>Chat titles</translation>
    </message>
    <message>
        <source>No results.</source>
        <translation>No results.</translation>
    </message>
    <message>
        <source>Your chats will appear here.</source>
        <translation>Your chats will appear here.</translation>
    </message>
    <message>
        <source>More</source>
        <translation>More</translation>
    </message>
    <message>
        <source>Import chats…</source>
        <translation>Import chats…</translation>
    </message>
    <message>
        <source>Export this chat…</source>
        <translation>Export this chat…</translation>
    </message>
    <message>
        <source>Recently deleted</source>
        <translation>Recently deleted</translation>
    </message>
    <message>
        <source>Read a document…</source>
        <translation>Read a document…</translation>
    </message>
    <message>
        <source>Folders</source>
        <translation>Folders</translation>
    </message>
    <message>
        <source>New folder…</source>
        <translation>New folder…</translation>
    </message>
    <message>
        <source>Read a folder…</source>
        <translation>Read a folder…</translation>
    </message>
</context>
<context>
    <name>LibraryRow</name>
    <message>
        <source>Chat title</source>
        <translation>Chat title</translation>
    </message>
    <message>
        <source>Answering…</source>
        <translation>Answering…</translation>
    </message>
    <message>
        <source>More options for %1</source>
        <translation>More options for %1</translation>
    </message>
    <message>
        <source>Folder %1</source>
        <translation>Folder %1</translation>
    </message>
    <message numerus="yes">
        <source>%n chats</source>
        <translation>
            <numerusform>%n chat</numerusform>
            <numerusform>%n chats</numerusform>
        </translation>
    </message>
    <message>
        <source>folded</source>
        <translation>folded</translation>
    </message>
    <message>
        <source>unfolded</source>
        <translation>unfolded</translation>
    </message>
    <message>
        <source>Folder deleted. Its chats are kept.</source>
        <translation>Folder deleted. Its chats are kept.</translation>
    </message>
    <message>
        <source>Name of the folder</source>
        <translation>Name of the folder</translation>
    </message>
    <message>
        <source>selected</source>
        <translation>selected</translation>
    </message>
</context>
<context>
    <name>LibraryRowMenu</name>
    <message>
        <source>Unpin</source>
        <translation>Unpin</translation>
    </message>
    <message>
        <source>Pin to the top</source>
        <translation>Pin to the top</translation>
    </message>
    <message>
        <source>Rename</source>
        <translation>Rename</translation>
    </message>
    <message>
        <source>Move to a folder…</source>
        <translation>Move to a folder…</translation>
    </message>
    <message>
        <source>Export…</source>
        <translation>Export…</translation>
    </message>
    <message>
        <source>Delete folder (chats are kept)</source>
        <translation>Delete folder (chats are kept)</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Delete</translation>
    </message>
</context>
<context>
    <name>LinkDialog</name>
    <message>
        <source>Copy</source>
        <translation>Copy</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Cancel</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>Open</translation>
    </message>
    <message>
        <source>Open this link in your browser? Models sometimes invent addresses.</source>
        <translation>Open this link in your browser? Models sometimes invent addresses.</translation>
    </message>
    <message>
        <source>Only web and mail links can be opened.</source>
        <translation>Only web and mail links can be opened.</translation>
    </message>
</context>
<context>
    <name>Main</name>
    <message>
        <source>Open a model</source>
        <translation>Open a model</translation>
    </message>
    <message>
        <source>No folders or models (.gguf) here.</source>
        <translation>No folders or models (.gguf) here.</translation>
    </message>
    <message>
        <source>Import chats</source>
        <translation>Import chats</translation>
    </message>
    <message>
        <source>No chats to import in this folder.</source>
        <translation>No chats to import in this folder.</translation>
    </message>
    <message>
        <source>Export to a folder</source>
        <translation>Export to a folder</translation>
    </message>
    <message>
        <source>Save this place in a folder</source>
        <translation>Save this place in a folder</translation>
    </message>
    <message>
        <source>Read a document</source>
        <translation>Read a document</translation>
    </message>
    <message>
        <source>Choose a JSON schema</source>
        <translation>Choose a JSON schema</translation>
    </message>
    <message>
        <source>Read a folder</source>
        <translation>Read a folder</translation>
    </message>
</context>
<context>
    <name>MemoryMeter</name>
    <message>
        <source>%L1 tokens so far, no limit. The model&apos;s memory of this chat always takes %2.</source>
        <translation>%L1 tokens so far, no limit. The model&apos;s memory of this chat always takes %2.</translation>
    </message>
    <message>
        <source>%L1 tokens so far. No limit; old details fade.</source>
        <translation>%L1 tokens so far. No limit; old details fade.</translation>
    </message>
    <message>
        <source>About %L1 tokens so far. No limit; old details fade.</source>
        <translation>About %L1 tokens so far. No limit; old details fade.</translation>
    </message>
</context>
<context>
    <name>MessageActions</name>
    <message>
        <source>Previous version</source>
        <translation>Previous version</translation>
    </message>
    <message>
        <source>Version %1 of %2</source>
        <translation>Version %1 of %2</translation>
    </message>
    <message>
        <source>Next version</source>
        <translation>Next version</translation>
    </message>
    <message>
        <source>Compare versions</source>
        <translation>Compare versions</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>Copy</translation>
    </message>
    <message>
        <source>Edit</source>
        <translation>Edit</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>Try again</translation>
    </message>
    <message>
        <source>Continue from here</source>
        <translation>Continue from here</translation>
    </message>
    <message>
        <source>More options</source>
        <translation>More options</translation>
    </message>
</context>
<context>
    <name>MessageDelegate</name>
    <message>
        <source>You</source>
        <translation>You</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>System prompt</translation>
    </message>
    <message>
        <source>Answer</source>
        <translation>Answer</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>Pinned</translation>
    </message>
    <message>
        <source>Answering…</source>
        <translation>Answering…</translation>
    </message>
    <message>
        <source>Reached the length limit</source>
        <translation>Reached the length limit</translation>
    </message>
    <message>
        <source>Stopped</source>
        <translation>Stopped</translation>
    </message>
    <message>
        <source>Continue</source>
        <translation>Continue</translation>
    </message>
</context>
<context>
    <name>MessageEditor</name>
    <message>
        <source>Cancel</source>
        <translation>Cancel</translation>
    </message>
    <message>
        <source>Send as a new branch</source>
        <translation>Send as a new branch</translation>
    </message>
    <message>
        <source>Edit message</source>
        <translation>Edit message</translation>
    </message>
    <message>
        <source>Save as a new version</source>
        <translation>Save as a new version</translation>
    </message>
</context>
<context>
    <name>MessageMenu</name>
    <message>
        <source>Unpin</source>
        <translation>Unpin</translation>
    </message>
    <message>
        <source>Name this place…</source>
        <translation>Name this place…</translation>
    </message>
    <message>
        <source>Compare versions</source>
        <translation>Compare versions</translation>
    </message>
    <message>
        <source>Continue from here</source>
        <translation>Continue from here</translation>
    </message>
    <message>
        <source>Edit this answer</source>
        <translation>Edit this answer</translation>
    </message>
    <message>
        <source>Pin (always instant)</source>
        <translation>Pin (always instant)</translation>
    </message>
    <message>
        <source>Delete from here…</source>
        <translation>Delete from here…</translation>
    </message>
    <message>
        <source>Try three answers</source>
        <translation>Try three answers</translation>
    </message>
    <message>
        <source>Save this place as a file…</source>
        <translation>Save this place as a file…</translation>
    </message>
    <message>
        <source>Begin a new chat here</source>
        <translation>Begin a new chat here</translation>
    </message>
</context>
<context>
    <name>ModelRow</name>
    <message>
        <source>Cannot be used: %1</source>
        <translation>Cannot be used: %1</translation>
    </message>
    <message>
        <source>Loading the model…</source>
        <translation>Loading the model…</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Cancel</translation>
    </message>
    <message>
        <source>In use</source>
        <translation>In use</translation>
    </message>
    <message>
        <source>Needs more memory than the %1 free now.</source>
        <translation>Needs more memory than the %1 free now.</translation>
    </message>
</context>
<context>
    <name>ModelSheet</name>
    <message>
        <source>Models</source>
        <translation>Models</translation>
    </message>
    <message>
        <source>Device</source>
        <translation>Device</translation>
    </message>
    <message>
        <source>Open a file…</source>
        <translation>Open a file…</translation>
    </message>
    <message>
        <source>Run on</source>
        <translation>Run on</translation>
    </message>
    <message>
        <source>You can also drop a model file (.gguf) onto this window.</source>
        <translation>You can also drop a model file (.gguf) onto this window.</translation>
    </message>
</context>
<context>
    <name>NameDialog</name>
    <message>
        <source>Cancel</source>
        <translation>Cancel</translation>
    </message>
    <message>
        <source>Save</source>
        <translation>Save</translation>
    </message>
    <message>
        <source>Name for this place</source>
        <translation>Name for this place</translation>
    </message>
</context>
<context>
    <name>NoticeBar</name>
    <message>
        <source>Details</source>
        <translation>Details</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>Undo</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>Dismiss</translation>
    </message>
    <message>
        <source>Hide details</source>
        <translation>Hide details</translation>
    </message>
</context>
<context>
    <name>NumberSetting</name>
    <message>
        <source>%1%</source>
        <translation>%1%</translation>
    </message>
</context>
<context>
    <name>PlacePreview</name>
    <message>
        <source>You</source>
        <translation>You</translation>
    </message>
    <message>
        <source>Answer</source>
        <translation>Answer</translation>
    </message>
    <message>
        <source>Continue from here</source>
        <translation>Continue from here</translation>
    </message>
</context>
<context>
    <name>QShortcut</name>
    <message>
        <source>Ctrl</source>
        <translation>Ctrl</translation>
    </message>
    <message>
        <source>Shift</source>
        <translation>Shift</translation>
    </message>
    <message>
        <source>Alt</source>
        <translation>Alt</translation>
    </message>
    <message>
        <source>Esc</source>
        <translation>Esc</translation>
    </message>
    <message>
        <source>Return</source>
        <translation>Enter</translation>
    </message>
    <message>
        <source>Del</source>
        <translation>Delete</translation>
    </message>
    <message>
        <source>PgUp</source>
        <translation>Page Up</translation>
    </message>
    <message>
        <source>PgDown</source>
        <translation>Page Down</translation>
    </message>
    <message>
        <source>Up</source>
        <translation>Up</translation>
    </message>
    <message>
        <source>Left</source>
        <translation>Left</translation>
    </message>
    <message>
        <source>Right</source>
        <translation>Right</translation>
    </message>
    <message>
        <source>Backspace</source>
        <translation>Backspace</translation>
    </message>
</context>
<context>
    <name>ReadDialog</name>
    <message>
        <source>Read %1? %L2 tokens, about %3 s. Old details fade.</source>
        <translation>Read %1? %L2 tokens, about %3 s. Old details fade.</translation>
    </message>
    <message>
        <source>Read %1? About %L2 tokens. Old details fade.</source>
        <translation>Read %1? About %L2 tokens. Old details fade.</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Cancel</translation>
    </message>
    <message>
        <source>Read</source>
        <translation>Read</translation>
    </message>
    <message>
        <source>Opening %1…</source>
        <translation>Opening %1…</translation>
    </message>
    <message numerus="yes">
        <source>%n text and source files.</source>
        <translation>
            <numerusform>%n text or source file.</numerusform>
            <numerusform>%n text and source files.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n left out: no text, or larger than 1 MB.</source>
        <translation>
            <numerusform>%n left out: no text, or larger than 1 MB.</numerusform>
            <numerusform>%n left out: no text, or larger than 1 MB.</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>RemindBlock</name>
    <message numerus="yes">
        <source>Re-read %n earlier messages</source>
        <translation>
            <numerusform>Re-read %n earlier message</numerusform>
            <numerusform>Re-read %n earlier messages</numerusform>
        </translation>
    </message>
    <message>
        <source>Hide what was re-read</source>
        <translation>Hide what was re-read</translation>
    </message>
    <message>
        <source>Show what was re-read</source>
        <translation>Show what was re-read</translation>
    </message>
    <message>
        <source>Show this message</source>
        <translation>Show this message</translation>
    </message>
</context>
<context>
    <name>Runnel</name>
    <message>
        <source>Not enough memory. Close other programs or choose a smaller model.</source>
        <translation>Not enough memory. Close other programs or choose a smaller model.</translation>
    </message>
    <message>
        <source>Stopped.</source>
        <translation>Stopped.</translation>
    </message>
    <message>
        <source>Exported to %1</source>
        <translation>Exported to %1</translation>
    </message>
    <message>
        <source>Copied.</source>
        <translation>Copied.</translation>
    </message>
    <message>
        <source>%1 parameters · %2 · %3 layers</source>
        <translation>%1 parameters · %2 · %3 layers</translation>
    </message>
    <message>
        <source>Couldn&apos;t save to %1: the disk is full.</source>
        <translation>Couldn&apos;t save to %1: the disk is full.</translation>
    </message>
    <message>
        <source>Couldn&apos;t save to %1: no permission to write there.</source>
        <translation>Couldn&apos;t save to %1: no permission to write there.</translation>
    </message>
    <message>
        <source>Your chat library %1 is damaged.</source>
        <translation>Your chat library %1 is damaged.</translation>
    </message>
    <message>
        <source>%1 was made with another model or a newer version.</source>
        <translation>%1 was made with another model or a newer version.</translation>
    </message>
    <message>
        <source>Couldn&apos;t read %1: %2.</source>
        <translation>Couldn&apos;t read %1: %2.</translation>
    </message>
    <message>
        <source>Can&apos;t find %1. Was it moved or deleted?</source>
        <translation>Can&apos;t find %1. Was it moved or deleted?</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: it is damaged or not a model file. Download it again.</source>
        <translation>Can&apos;t read %1: it is damaged or not a model file. Download it again.</translation>
    </message>
    <message>
        <source>This version can&apos;t run %1 (%2). Choose another model.</source>
        <translation>This version can&apos;t run %1 (%2). Choose another model.</translation>
    </message>
    <message>
        <source>Couldn&apos;t save to %1: %2.</source>
        <translation>Couldn&apos;t save to %1: %2.</translation>
    </message>
    <message>
        <source>Can&apos;t import %1: this is not a chat export of Runnel, ChatGPT or Open WebUI.</source>
        <translation>Can&apos;t import %1: this is not a chat export of Runnel, ChatGPT or Open WebUI.</translation>
    </message>
    <message>
        <source>No model selected. Choose one under Models.</source>
        <translation>No model selected. Choose one under Models.</translation>
    </message>
    <message>
        <source>Couldn&apos;t read or write a file: %1.</source>
        <translation>Couldn&apos;t read or write a file: %1.</translation>
    </message>
    <message>
        <source>A file is damaged: %1.</source>
        <translation>A file is damaged: %1.</translation>
    </message>
    <message>
        <source>this model</source>
        <translation>this model</translation>
    </message>
    <message>
        <source>This</source>
        <translation>This</translation>
    </message>
    <message>
        <source>Internal error. Please report it with the details below.</source>
        <translation>Internal error. Please report it with the details below.</translation>
    </message>
    <message>
        <source>%1 has too little memory for this model, so it runs on the CPU. Choose a smaller model, or another device under Models.</source>
        <translation>%1 has too little memory for this model, so it runs on the CPU. Choose a smaller model, or another device under Models.</translation>
    </message>
    <message>
        <source>%1 can&apos;t be used, so the model runs on the CPU. Check its driver, or choose another device under Models.</source>
        <translation>%1 can&apos;t be used, so the model runs on the CPU. Check its driver, or choose another device under Models.</translation>
    </message>
    <message>
        <source>Chat moved to Recently deleted.</source>
        <translation>Chat moved to Recently deleted.</translation>
    </message>
    <message>
        <source>Messages deleted.</source>
        <translation>Messages deleted.</translation>
    </message>
    <message>
        <source>A new library was begun.</source>
        <translation>A new library was begun.</translation>
    </message>
    <message>
        <source>The old file is kept: %1</source>
        <translation>The old file is kept: %1</translation>
    </message>
    <message numerus="yes">
        <source>%n chats imported.</source>
        <translation>
            <numerusform>%n chat imported.</numerusform>
            <numerusform>%n chats imported.</numerusform>
        </translation>
    </message>
    <message>
        <source>No model found. Choose a model file (.gguf) under Models.</source>
        <translation>No model found. Choose a model file (.gguf) under Models.</translation>
    </message>
    <message>
        <source>Save into a new library</source>
        <translation>Save into a new library</translation>
    </message>
    <message>
        <source>Begin a new library (the old file is kept)</source>
        <translation>Begin a new library (the old file is kept)</translation>
    </message>
    <message>
        <source>Automatic (best available)</source>
        <translation>Automatic (best available)</translation>
    </message>
    <message>
        <source>Needs %1: %2 for the model, %3 for a chat of any length</source>
        <translation>Needs %1: %2 for the model, %3 for a chat of any length</translation>
    </message>
    <message numerus="yes">
        <source>%n messages deleted.</source>
        <translation>
            <numerusform>%n message deleted.</numerusform>
            <numerusform>%n messages deleted.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n chats saved into a new library.</source>
        <translation>
            <numerusform>%n chat saved into a new library.</numerusform>
            <numerusform>%n chats saved into a new library.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n messages could not be read.</source>
        <translation>
            <numerusform>%n message could not be read.</numerusform>
            <numerusform>%n messages could not be read.</numerusform>
        </translation>
    </message>
    <message>
        <source>%1 stopped working. Try again, or choose another device under Models.</source>
        <translation>%1 stopped working. Try again, or choose another device under Models.</translation>
    </message>
    <message>
        <source>The device</source>
        <translation>The device</translation>
    </message>
    <message>
        <source>%1 is out of range.</source>
        <translation>%1 is out of range.</translation>
    </message>
    <message>
        <source>Saved. Coming back here will take a moment: its state couldn&apos;t be written to %1 (%2).</source>
        <translation>Saved. Coming back here will take a moment: its state couldn&apos;t be written to %1 (%2).</translation>
    </message>
    <message numerus="yes">
        <source>%n chats can be read.</source>
        <translation>
            <numerusform>%n chat can be read.</numerusform>
            <numerusform>%n chats can be read.</numerusform>
        </translation>
    </message>
    <message>
        <source>New messages are kept in %1.</source>
        <translation>New messages are kept in %1.</translation>
    </message>
    <message>
        <source>Open what can be read</source>
        <translation>Open what can be read</translation>
    </message>
    <message>
        <source>Reset sampling</source>
        <translation>Reset sampling</translation>
    </message>
    <message>
        <source>Instant</source>
        <translation>Instant</translation>
    </message>
    <message>
        <source>Reads %1 tokens</source>
        <translation>Reads %1 tokens</translation>
    </message>
    <message>
        <source>Reads %1 tokens, about %2 s</source>
        <translation>Reads %1 tokens, about %2 s</translation>
    </message>
    <message>
        <source>Made with another model: its text will be read, about %1 s.</source>
        <translation>Made with another model: its text will be read, about %1 s.</translation>
    </message>
    <message>
        <source>Made with another model: its text will be read.</source>
        <translation>Made with another model: its text will be read.</translation>
    </message>
    <message>
        <source>Can&apos;t open %1. Drop a model (.gguf), a chat export (.json) or a document.</source>
        <translation>Can&apos;t open %1. Drop a model (.gguf), a chat export (.json) or a document.</translation>
    </message>
    <message>
        <source>After %1</source>
        <translation>After %1</translation>
    </message>
    <message>
        <source>Can&apos;t answer as JSON: %1.</source>
        <translation>Can&apos;t answer as JSON: %1.</translation>
    </message>
    <message>
        <source>Can&apos;t answer by %1: %2.</source>
        <translation>Can&apos;t answer by %1: %2.</translation>
    </message>
    <message>
        <source>Can&apos;t find %1, the model of this chat. Choose another one under Models.</source>
        <translation>Can&apos;t find %1, the model of this chat. Choose another one under Models.</translation>
    </message>
    <message>
        <source>Can&apos;t find %1, the model of this chat. It goes on with %2, which reads its text again.</source>
        <translation>Can&apos;t find %1, the model of this chat. It goes on with %2, which reads its text again.</translation>
    </message>
    <message>
        <source>%1 has no text or source files to read.</source>
        <translation>%1 has no text or source files to read.</translation>
    </message>
    <message>
        <source>%1 has no text to read (scanned pages?).</source>
        <translation>%1 has no text to read (scanned pages?).</translation>
    </message>
    <message>
        <source>%1 has no text to read.</source>
        <translation>%1 has no text to read.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: it is protected by a password. Save it without one.</source>
        <translation>Can&apos;t read %1: it is protected by a password. Save it without one.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: it is too large. Choose a folder inside it.</source>
        <translation>Can&apos;t read %1: it is too large. Choose a folder inside it.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: it is damaged or not what its name says.</source>
        <translation>Can&apos;t read %1: it is damaged or not what its name says.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: this system can&apos;t lock in the program that reads such files. Save it as text.</source>
        <translation>Can&apos;t read %1: this system can&apos;t lock in the program that reads such files. Save it as text.</translation>
    </message>
    <message>
        <source>This version can&apos;t read this kind of file: %1. Save it as text.</source>
        <translation>This version can&apos;t read this kind of file: %1. Save it as text.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: it is too large. Save a smaller part.</source>
        <translation>Can&apos;t read %1: it is too large. Save a smaller part.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: that needs too much memory. Save a smaller part.</source>
        <translation>Can&apos;t read %1: that needs too much memory. Save a smaller part.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: that takes too long. Save a smaller part.</source>
        <translation>Can&apos;t read %1: that takes too long. Save a smaller part.</translation>
    </message>
    <message>
        <source>Couldn&apos;t read or save your chat library %1: %2.</source>
        <translation>Couldn&apos;t read or save your chat library %1: %2.</translation>
    </message>
    <message>
        <source>Can&apos;t import %1: it is too large (%2 MB, at most %3 MB).</source>
        <translation>Can&apos;t import %1: it is too large (%2 MB, at most %3 MB).</translation>
    </message>
    <message>
        <source>Can&apos;t import %1: the file is damaged or incomplete. Export or copy it again.</source>
        <translation>Can&apos;t import %1: the file is damaged or incomplete. Export or copy it again.</translation>
    </message>
</context>
<context>
    <name>SamplingSettings</name>
    <message>
        <source>Temperature</source>
        <translation>Temperature</translation>
    </message>
    <message>
        <source>0 always picks the likeliest word. Higher values are livelier and make more mistakes.</source>
        <translation>0 always picks the likeliest word. Higher values are livelier and make more mistakes.</translation>
    </message>
    <message>
        <source>0 (always the likeliest)</source>
        <translation>0 (always the likeliest)</translation>
    </message>
    <message>
        <source>Considers only the likeliest words whose probabilities add up to this share. 1 considers all.</source>
        <translation>Considers only the likeliest words whose probabilities add up to this share. 1 considers all.</translation>
    </message>
    <message>
        <source>Considers at most this many words.</source>
        <translation>Considers at most this many words.</translation>
    </message>
    <message>
        <source>all</source>
        <translation>all</translation>
    </message>
    <message>
        <source>Ignores words less likely than this share of the likeliest one.</source>
        <translation>Ignores words less likely than this share of the likeliest one.</translation>
    </message>
    <message>
        <source>off</source>
        <translation>off</translation>
    </message>
    <message>
        <source>Repetition penalty</source>
        <translation>Repetition penalty</translation>
    </message>
    <message>
        <source>Against loops (DRY)</source>
        <translation>Against loops (DRY)</translation>
    </message>
    <message>
        <source>Above 1, recently used words become less likely. Small models need a little.</source>
        <translation>Above 1, recently used words become less likely. Small models need a little.</translation>
    </message>
    <message>
        <source>Makes it unlikely that an answer repeats a passage; start with %1.</source>
        <translation>Makes it unlikely that an answer repeats a passage; start with %1.</translation>
    </message>
</context>
<context>
    <name>SelectableArea</name>
    <message>
        <source>Copy</source>
        <translation>Copy</translation>
    </message>
    <message>
        <source>Select all</source>
        <translation>Select all</translation>
    </message>
    <message>
        <source>Copy link</source>
        <translation>Copy link</translation>
    </message>
</context>
<context>
    <name>Selector</name>
    <message>
        <source>selected</source>
        <translation>selected</translation>
    </message>
</context>
<context>
    <name>SettingsSheet</name>
    <message>
        <source>Settings</source>
        <translation>Settings</translation>
    </message>
    <message>
        <source>Theme</source>
        <translation>Theme</translation>
    </message>
    <message>
        <source>System</source>
        <translation>System</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>Light</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>Dark</translation>
    </message>
    <message>
        <source>Font</source>
        <translation>Font</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>System prompt</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Seed</translation>
    </message>
    <message>
        <source>Threads</source>
        <translation>Threads</translation>
    </message>
    <message>
        <source>Memory window</source>
        <translation>Memory window</translation>
    </message>
    <message>
        <source>How many of the latest tokens the model sees word for word. Fewer need less memory. Changing it loads the model again, and chats saved with another window are read again.</source>
        <translation>How many of the latest tokens the model sees word for word. Fewer need less memory. Changing it loads the model again, and chats saved with another window are read again.</translation>
    </message>
    <message>
        <source>The model&apos;s default is %1.</source>
        <translation>The model&apos;s default is %1.</translation>
    </message>
    <message>
        <source>As the model&apos;s file recommends, until you change it.</source>
        <translation>As the model&apos;s file recommends, until you change it.</translation>
    </message>
    <message>
        <source>Appearance</source>
        <translation>Appearance</translation>
    </message>
    <message>
        <source>Text size</source>
        <translation>Text size</translation>
    </message>
    <message>
        <source>Relative to the system size.</source>
        <translation>Relative to the system size.</translation>
    </message>
    <message>
        <source>Language (after a restart)</source>
        <translation>Language (after a restart)</translation>
    </message>
    <message>
        <source>Show speed and token count below the chat</source>
        <translation>Show speed and token count below the chat</translation>
    </message>
    <message>
        <source>Given to the model at the start of every new chat. Leave empty to use the model&apos;s own.</source>
        <translation>Given to the model at the start of every new chat. Leave empty to use the model&apos;s own.</translation>
    </message>
    <message>
        <source>For example: Answer in one sentence.</source>
        <translation>For example: Answer in one sentence.</translation>
    </message>
    <message>
        <source>Sampling</source>
        <translation>Sampling</translation>
    </message>
    <message>
        <source>Reset to defaults</source>
        <translation>Reset to defaults</translation>
    </message>
    <message>
        <source>Maximum answer length</source>
        <translation>Maximum answer length</translation>
    </message>
    <message>
        <source>In tokens. A token is about three quarters of a word.</source>
        <translation>In tokens. A token is about three quarters of a word.</translation>
    </message>
    <message>
        <source>With the same seed, the same chat gets the same answer.</source>
        <translation>With the same seed, the same chat gets the same answer.</translation>
    </message>
    <message>
        <source>random</source>
        <translation>random</translation>
    </message>
    <message>
        <source>Performance</source>
        <translation>Performance</translation>
    </message>
    <message>
        <source>CPU threads to use. Changing this reloads the model.</source>
        <translation>CPU threads to use. Changing this reloads the model.</translation>
    </message>
    <message>
        <source>one per core</source>
        <translation>one per core</translation>
    </message>
    <message>
        <source>Disk space for instant return (MB)</source>
        <translation>Disk space for instant return (MB)</translation>
    </message>
    <message>
        <source>In use: %1 for %L2 saved states, %3 for text. When it is full, the oldest states are removed; going back there then takes a moment. Pinned places are kept.</source>
        <translation>In use: %1 for %L2 saved states, %3 for text. When it is full, the oldest states are removed; going back there then takes a moment. Pinned places are kept.</translation>
    </message>
    <message>
        <source>Keyboard shortcuts…</source>
        <translation>Keyboard shortcuts…</translation>
    </message>
    <message>
        <source>Runnel Chat never uses the network. Chats, settings and models stay in your own folders.</source>
        <translation>Runnel Chat never uses the network. Chats, settings and models stay in your own folders.</translation>
    </message>
    <message>
        <source>Show</source>
        <translation>Show</translation>
    </message>
    <message>
        <source>Everyday</source>
        <translation>Everyday</translation>
    </message>
    <message>
        <source>Expert</source>
        <translation>Expert</translation>
    </message>
    <message>
        <source>Re-read earlier messages when a question refers to them</source>
        <translation>Re-read earlier messages when a question refers to them</translation>
    </message>
</context>
<context>
    <name>Sheet</name>
    <message>
        <source>Close</source>
        <translation>Close</translation>
    </message>
</context>
<context>
    <name>StatusLine</name>
    <message>
        <source>Loading the model…</source>
        <translation>Loading the model…</translation>
    </message>
    <message>
        <source>Stopping…</source>
        <translation>Stopping…</translation>
    </message>
    <message>
        <source>%L1 tokens/s on %2</source>
        <translation>%L1 tokens/s on %2</translation>
    </message>
    <message>
        <source>, not drawn ahead: %1</source>
        <translation>, not drawn ahead: %1</translation>
    </message>
    <message>
        <source>Reading %L1 of %L2 tokens. Esc stops.</source>
        <translation>Reading %L1 of %L2 tokens. Esc stops.</translation>
    </message>
    <message>
        <source>Reading %L1 of %L2 tokens, about %3 s left. Esc stops.</source>
        <translation>Reading %L1 of %L2 tokens, about %3 s left. Esc stops.</translation>
    </message>
    <message>
        <source>first word in %L1 ms</source>
        <translation>first word in %L1 ms</translation>
    </message>
    <message>
        <source>model memory %1</source>
        <translation>model memory %1</translation>
    </message>
    <message>
        <source>%L1 tokens re-read: the model&apos;s template rewrites earlier turns</source>
        <translation>%L1 tokens re-read: the model&apos;s template rewrites earlier turns</translation>
    </message>
    <message>
        <source>Small models make mistakes. Check important facts.</source>
        <translation>Small models make mistakes. Check important facts.</translation>
    </message>
    <message>
        <source>ops (the only program there)</source>
        <translation>ops (the only program there)</translation>
    </message>
</context>
<context>
    <name>TableBlock</name>
    <message>
        <source>Table with %1 columns</source>
        <translation>Table with %1 columns</translation>
    </message>
</context>
<context>
    <name>ThoughtBlock</name>
    <message>
        <source>Thinking…</source>
        <translation>Thinking…</translation>
    </message>
    <message>
        <source>Thought for less than a second</source>
        <translation>Thought for less than a second</translation>
    </message>
    <message numerus="yes">
        <source>Thought for %n seconds</source>
        <translation>
            <numerusform>Thought for %n second</numerusform>
            <numerusform>Thought for %n seconds</numerusform>
        </translation>
    </message>
    <message>
        <source>Thought for %1 min %2 s</source>
        <translation>Thought for %1 min %2 s</translation>
    </message>
    <message>
        <source>Hide the thought</source>
        <translation>Hide the thought</translation>
    </message>
    <message>
        <source>Show the thought</source>
        <translation>Show the thought</translation>
    </message>
</context>
<context>
    <name>TimelinePane</name>
    <message>
        <source>Timeline</source>
        <translation>Timeline</translation>
    </message>
    <message>
        <source>Hide the timeline</source>
        <translation>Hide the timeline</translation>
    </message>
    <message>
        <source>Back</source>
        <translation>Back</translation>
    </message>
    <message>
        <source>Forward</source>
        <translation>Forward</translation>
    </message>
    <message>
        <source>Every message will appear here. Click one to look at it; “Continue from here” goes back to it.</source>
        <translation>Every message will appear here. Click one to look at it; “Continue from here” goes back to it.</translation>
    </message>
    <message>
        <source>What do you still know?</source>
        <translation>What do you still know?</translation>
    </message>
</context>
<context>
    <name>TimelineRow</name>
    <message>
        <source>You</source>
        <translation>You</translation>
    </message>
    <message>
        <source>Answer</source>
        <translation>Answer</translation>
    </message>
    <message>
        <source>current place</source>
        <translation>current place</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>Pinned</translation>
    </message>
    <message>
        <source>branch %1 of %2</source>
        <translation>branch %1 of %2</translation>
    </message>
    <message numerus="yes">
        <source>%n more messages folded</source>
        <translation>
            <numerusform>%n more message folded</numerusform>
            <numerusform>%n more messages folded</numerusform>
        </translation>
    </message>
    <message>
        <source>%L1 s</source>
        <translation>%L1 s</translation>
    </message>
    <message>
        <source>%L1 tokens</source>
        <translation>%L1 tokens</translation>
    </message>
    <message>
        <source>Unfold this branch</source>
        <translation>Unfold this branch</translation>
    </message>
    <message>
        <source>Fold this branch</source>
        <translation>Fold this branch</translation>
    </message>
    <message>
        <source>+%L1</source>
        <translation>+%L1</translation>
    </message>
    <message>
        <source>Document</source>
        <translation>Document</translation>
    </message>
</context>
<context>
    <name>Tour</name>
    <message>
        <source>Answer in one short sentence.</source>
        <translation>Answer in one short sentence.</translation>
    </message>
    <message>
        <source>Suggest a name for a small boat.</source>
        <translation>Suggest a name for a small boat.</translation>
    </message>
    <message>
        <source>A short tour</source>
        <translation>A short tour</translation>
    </message>
    <message>
        <source>Which colour suits it?</source>
        <translation>Which colour suits it?</translation>
    </message>
    <message>
        <source>What should I take along on it?</source>
        <translation>What should I take along on it?</translation>
    </message>
</context>
<context>
    <name>TourBar</name>
    <message>
        <source>That was all: nothing you write is ever overwritten.</source>
        <translation>That was all: nothing you write is ever overwritten.</translation>
    </message>
    <message>
        <source>Every message is a place.</source>
        <translation>Every message is a place.</translation>
    </message>
    <message>
        <source>Go back here and ask something else.</source>
        <translation>Go back here and ask something else.</translation>
    </message>
    <message>
        <source>Both answers are kept, side by side.</source>
        <translation>Both answers are kept, side by side.</translation>
    </message>
    <message>
        <source>The model is answering…</source>
        <translation>The model is answering…</translation>
    </message>
    <message>
        <source>Press %1 to send this question, or write one of your own.</source>
        <translation>Press %1 to send this question, or write one of your own.</translation>
    </message>
    <message>
        <source>Now ask a second question.</source>
        <translation>Now ask a second question.</translation>
    </message>
    <message>
        <source>Right-click the marked place in the timeline (or hold it) and choose “Continue from here”.</source>
        <translation>Right-click the marked place in the timeline (or hold it) and choose “Continue from here”.</translation>
    </message>
    <message>
        <source>You are back at the first answer. Ask something else: it becomes a branch.</source>
        <translation>You are back at the first answer. Ask something else: it becomes a branch.</translation>
    </message>
    <message>
        <source>Click the marked place in the timeline, then “Continue from here”. %1 goes back, too.</source>
        <translation>Click the marked place in the timeline, then “Continue from here”. %1 goes back, too.</translation>
    </message>
    <message>
        <source>Is this chat to be kept?</source>
        <translation>Is this chat to be kept?</translation>
    </message>
    <message>
        <source>Step %1 of %2</source>
        <translation>Step %1 of %2</translation>
    </message>
    <message>
        <source>Skip</source>
        <translation>Skip</translation>
    </message>
    <message>
        <source>Show the timeline</source>
        <translation>Show the timeline</translation>
    </message>
    <message>
        <source>Delete this chat</source>
        <translation>Delete this chat</translation>
    </message>
    <message>
        <source>Keep it</source>
        <translation>Keep it</translation>
    </message>
</context>
<context>
    <name>TrashSheet</name>
    <message>
        <source>Recently deleted</source>
        <translation>Recently deleted</translation>
    </message>
    <message>
        <source>Deleted chats are removed after 30 days.</source>
        <translation>Deleted chats are removed after 30 days.</translation>
    </message>
    <message>
        <source>Nothing was deleted.</source>
        <translation>Nothing was deleted.</translation>
    </message>
    <message>
        <source>Chat</source>
        <translation>Chat</translation>
    </message>
    <message>
        <source>From “%1”</source>
        <translation>From “%1”</translation>
    </message>
    <message numerus="yes">
        <source>%n messages</source>
        <translation>
            <numerusform>%n message</numerusform>
            <numerusform>%n messages</numerusform>
        </translation>
    </message>
    <message>
        <source>Restore</source>
        <translation>Restore</translation>
    </message>
    <message>
        <source>Delete forever</source>
        <translation>Delete forever</translation>
    </message>
</context>
<context>
    <name>TrySheet</name>
    <message>
        <source>Three answers</source>
        <translation>Three answers</translation>
    </message>
    <message>
        <source>Answering…</source>
        <translation>Answering…</translation>
    </message>
    <message>
        <source>Words that only one answer has are marked. Nothing is stored until you keep one.</source>
        <translation>Words that only one answer has are marked. Nothing is stored until you keep one.</translation>
    </message>
    <message>
        <source>Answer %1</source>
        <translation>Answer %1</translation>
    </message>
    <message>
        <source>Keep this one</source>
        <translation>Keep this one</translation>
    </message>
</context>
</TS>
