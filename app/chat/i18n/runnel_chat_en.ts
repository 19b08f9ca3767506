<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="en">
<context>
    <name>CodeBlock</name>
    <message>
        <source>Code %1</source>
        <translation>Code %1</translation>
    </message>
    <message>
        <source>code</source>
        <translation>code</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>Copy</translation>
    </message>
    <message>
        <source>Copy code</source>
        <translation>Copy code</translation>
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
        <source>Go on with this one</source>
        <translation>Go on with this one</translation>
    </message>
</context>
<context>
    <name>Composer</name>
    <message>
        <source>Another chat is being answered…</source>
        <translation>Another chat is being answered…</translation>
    </message>
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
        <source>Stop (Esc)</source>
        <translation>Stop (Esc)</translation>
    </message>
    <message>
        <source>Send (Enter)</source>
        <translation>Send (Enter)</translation>
    </message>
</context>
<context>
    <name>ConversationPane</name>
    <message>
        <source>Chats</source>
        <translation>Chats</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>New chat</translation>
    </message>
    <message>
        <source>Loading… %1 %</source>
        <translation>Loading… %1 %</translation>
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
        <source>Timeline</source>
        <translation>Timeline</translation>
    </message>
    <message>
        <source>Messages</source>
        <translation>Messages</translation>
    </message>
    <message>
        <source>To the end</source>
        <translation>To the end</translation>
    </message>
    <message>
        <source>You went back. What you say next starts a new branch.</source>
        <translation>You went back. What you say next starts a new branch.</translation>
    </message>
    <message>
        <source>Answer</source>
        <translation>Answer</translation>
    </message>
    <message>
        <source>Return to the end</source>
        <translation>Return to the end</translation>
    </message>
</context>
<context>
    <name>EmptyPage</name>
    <message>
        <source>What shall we talk about?</source>
        <translation>What shall we talk about?</translation>
    </message>
    <message>
        <source>Choose a model file first.</source>
        <translation>Choose a model file first.</translation>
    </message>
    <message>
        <source>Everything stays on this device. Any message is a place you can go back to; the model keeps a summary of fixed size, so early details may fade.</source>
        <translation>Everything stays on this device. Any message is a place you can go back to; the model keeps a summary of fixed size, so early details may fade.</translation>
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
        <source>Explain what a queue is, with code.</source>
        <translation>Explain what a queue is, with code.</translation>
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
        <source>All branches; can be imported again.</source>
        <translation>All branches; can be imported again.</translation>
    </message>
    <message>
        <source>The branch in view, for reading.</source>
        <translation>The branch in view, for reading.</translation>
    </message>
    <message>
        <source>File</source>
        <translation>File</translation>
    </message>
    <message>
        <source>This file exists and will be replaced.</source>
        <translation>This file exists and will be replaced.</translation>
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
</context>
<context>
    <name>FilePicker</name>
    <message>
        <source>No file of this kind is here.</source>
        <translation>No file of this kind is here.</translation>
    </message>
    <message>
        <source>This file is of another kind.</source>
        <translation>This file is of another kind.</translation>
    </message>
    <message>
        <source>Nothing that can be opened is at this path.</source>
        <translation>Nothing that can be opened is at this path.</translation>
    </message>
    <message>
        <source>Folder above</source>
        <translation>Folder above</translation>
    </message>
    <message>
        <source>Path of the folder</source>
        <translation>Path of the folder</translation>
    </message>
    <message>
        <source>Path of the folder or file</source>
        <translation>Path of the folder or file</translation>
    </message>
    <message>
        <source>Folders</source>
        <translation>Folders</translation>
    </message>
    <message>
        <source>Folders and files</source>
        <translation>Folders and files</translation>
    </message>
    <message>
        <source>No folder is in here.</source>
        <translation>No folder is in here.</translation>
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
</context>
<context>
    <name>FileRow</name>
    <message>
        <source>Folder %1</source>
        <translation>Folder %1</translation>
    </message>
</context>
<context>
    <name>KeysSheet</name>
    <message>
        <source>Keyboard</source>
        <translation>Keyboard</translation>
    </message>
    <message>
        <source>Send</source>
        <translation>Send</translation>
    </message>
    <message>
        <source>New line</source>
        <translation>New line</translation>
    </message>
    <message>
        <source>Stop the answer, close a page</source>
        <translation>Stop the answer, close a page</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>New chat</translation>
    </message>
    <message>
        <source>Write</source>
        <translation>Write</translation>
    </message>
    <message>
        <source>Search all messages</source>
        <translation>Search all messages</translation>
    </message>
    <message>
        <source>Answer again</source>
        <translation>Answer again</translation>
    </message>
    <message>
        <source>Undo a deletion, while its notice shows</source>
        <translation>Undo a deletion, while its notice shows</translation>
    </message>
    <message>
        <source>Show or hide chats, timeline</source>
        <translation>Show or hide chats, timeline</translation>
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
        <source>Delete</source>
        <translation>Delete</translation>
    </message>
    <message>
        <source>Rename or delete the chat chosen in the list</source>
        <translation>Rename or delete the chat chosen in the list</translation>
    </message>
    <message>
        <source>Scroll</source>
        <translation>Scroll</translation>
    </message>
    <message>
        <source>Larger, smaller, usual text</source>
        <translation>Larger, smaller, usual text</translation>
    </message>
    <message>
        <source>This list</source>
        <translation>This list</translation>
    </message>
    <message>
        <source>Say the last message differently</source>
        <translation>Say the last message differently</translation>
    </message>
    <message>
        <source>Compare the last versions</source>
        <translation>Compare the last versions</translation>
    </message>
</context>
<context>
    <name>LibraryPane</name>
    <message>
        <source>New chat</source>
        <translation>New chat</translation>
    </message>
    <message>
        <source>Hide the list</source>
        <translation>Hide the list</translation>
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
        <source>Last seven days</source>
        <translation>Last seven days</translation>
    </message>
    <message>
        <source>Earlier</source>
        <translation>Earlier</translation>
    </message>
    <message>
        <source>Names</source>
        <translation>Names</translation>
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
        <source>Nothing found.</source>
        <translation>Nothing found.</translation>
    </message>
    <message>
        <source>Your chats will be here.</source>
        <translation>Your chats will be here.</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>Models</translation>
    </message>
    <message>
        <source>Import a chat</source>
        <translation>Import a chat</translation>
    </message>
    <message>
        <source>Export this chat</source>
        <translation>Export this chat</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Settings</translation>
    </message>
</context>
<context>
    <name>LibraryRow</name>
    <message>
        <source>Name of the chat</source>
        <translation>Name of the chat</translation>
    </message>
    <message>
        <source>More about %1</source>
        <translation>More about %1</translation>
    </message>
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
        <source>Export…</source>
        <translation>Export…</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Delete</translation>
    </message>
</context>
<context>
    <name>LinkDialog</name>
    <message>
        <source>Open this link in the browser? Models make up addresses.</source>
        <translation>Open this link in the browser? Models make up addresses.</translation>
    </message>
    <message>
        <source>This is no link to the web; it is not opened.</source>
        <translation>This is no link to the web; it is not opened.</translation>
    </message>
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
</context>
<context>
    <name>Main</name>
    <message>
        <source>Open a model</source>
        <translation>Open a model</translation>
    </message>
    <message>
        <source>Import a chat</source>
        <translation>Import a chat</translation>
    </message>
    <message>
        <source>No folder and no model (.gguf) is here.</source>
        <translation>No folder and no model (.gguf) is here.</translation>
    </message>
    <message>
        <source>No folder and no exported chat (.json) is here.</source>
        <translation>No folder and no exported chat (.json) is here.</translation>
    </message>
    <message>
        <source>Export into a folder</source>
        <translation>Export into a folder</translation>
    </message>
</context>
<context>
    <name>MemoryMeter</name>
    <message>
        <source>This chat is %L1 tokens long. What the model keeps of it takes %2, whatever its length.</source>
        <translation>This chat is %L1 tokens long. What the model keeps of it takes %2, whatever its length.</translation>
    </message>
    <message>
        <source>Length of this chat</source>
        <translation>Length of this chat</translation>
    </message>
    <message>
        <source>%L1 tokens</source>
        <translation>%L1 tokens</translation>
    </message>
    <message>
        <source>Memory of it</source>
        <translation>Memory of it</translation>
    </message>
    <message>
        <source>%1, always</source>
        <translation>%1, always</translation>
    </message>
    <message>
        <source>Details from long ago fade.</source>
        <translation>Details from long ago fade.</translation>
    </message>
    <message>
        <source>about %L1 tokens</source>
        <translation>about %L1 tokens</translation>
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
        <source>Say it differently</source>
        <translation>Say it differently</translation>
    </message>
    <message>
        <source>Answer again</source>
        <translation>Answer again</translation>
    </message>
    <message>
        <source>Go back to here</source>
        <translation>Go back to here</translation>
    </message>
    <message>
        <source>More</source>
        <translation>More</translation>
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
        <source>The answer is being written</source>
        <translation>The answer is being written</translation>
    </message>
    <message>
        <source>Cut short</source>
        <translation>Cut short</translation>
    </message>
</context>
<context>
    <name>MessageEditor</name>
    <message>
        <source>Your message</source>
        <translation>Your message</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Cancel</translation>
    </message>
    <message>
        <source>Send as a new branch</source>
        <translation>Send as a new branch</translation>
    </message>
</context>
<context>
    <name>MessageMenu</name>
    <message>
        <source>Branch: go on from here</source>
        <translation>Branch: go on from here</translation>
    </message>
    <message>
        <source>Unpin</source>
        <translation>Unpin</translation>
    </message>
    <message>
        <source>Pin: keep its snapshot</source>
        <translation>Pin: keep its snapshot</translation>
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
        <source>Delete from here on</source>
        <translation>Delete from here on</translation>
    </message>
</context>
<context>
    <name>ModelRow</name>
    <message>
        <source>More than the %1 that are free now.</source>
        <translation>More than the %1 that are free now.</translation>
    </message>
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
</context>
<context>
    <name>ModelSheet</name>
    <message>
        <source>Models</source>
        <translation>Models</translation>
    </message>
    <message>
        <source>Runs on</source>
        <translation>Runs on</translation>
    </message>
    <message>
        <source>Device</source>
        <translation>Device</translation>
    </message>
    <message>
        <source>Model files (.gguf) can also be dropped onto the window.</source>
        <translation>Model files (.gguf) can also be dropped onto the window.</translation>
    </message>
    <message>
        <source>Open a file…</source>
        <translation>Open a file…</translation>
    </message>
</context>
<context>
    <name>NameDialog</name>
    <message>
        <source>Name of this place</source>
        <translation>Name of this place</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Cancel</translation>
    </message>
    <message>
        <source>Save</source>
        <translation>Save</translation>
    </message>
</context>
<context>
    <name>NoticeBar</name>
    <message>
        <source>Less</source>
        <translation>Less</translation>
    </message>
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
</context>
<context>
    <name>Runnel</name>
    <message>
        <source>Something is missing. Choose a model file, or look whether the file was moved.</source>
        <translation>Something is missing. Choose a model file, or look whether the file was moved.</translation>
    </message>
    <message>
        <source>The disk refused to read or write. Look for free space and permissions.</source>
        <translation>The disk refused to read or write. Look for free space and permissions.</translation>
    </message>
    <message>
        <source>This file is damaged or not what its name says. Fetch it again.</source>
        <translation>This file is damaged or not what its name says. Fetch it again.</translation>
    </message>
    <message>
        <source>This file is fine, but this version cannot run it. Choose another model.</source>
        <translation>This file is fine, but this version cannot run it. Choose another model.</translation>
    </message>
    <message>
        <source>This belongs to another model or version.</source>
        <translation>This belongs to another model or version.</translation>
    </message>
    <message>
        <source>Not enough memory. Close other programs or choose a smaller model.</source>
        <translation>Not enough memory. Close other programs or choose a smaller model.</translation>
    </message>
    <message>
        <source>The device failed. Choose another device, or try again.</source>
        <translation>The device failed. Choose another device, or try again.</translation>
    </message>
    <message>
        <source>Stopped.</source>
        <translation>Stopped.</translation>
    </message>
    <message>
        <source>A setting is outside its range. Reset the sampling settings.</source>
        <translation>A setting is outside its range. Reset the sampling settings.</translation>
    </message>
    <message>
        <source>Something went wrong inside. Please report the details.</source>
        <translation>Something went wrong inside. Please report the details.</translation>
    </message>
    <message>
        <source>Chat deleted.</source>
        <translation>Chat deleted.</translation>
    </message>
    <message>
        <source>Deleted from there on.</source>
        <translation>Deleted from there on.</translation>
    </message>
    <message>
        <source>Exported to %1</source>
        <translation>Exported to %1</translation>
    </message>
    <message>
        <source>Imported.</source>
        <translation>Imported.</translation>
    </message>
    <message>
        <source>No model was found. Choose a GGUF file under Models.</source>
        <translation>No model was found. Choose a GGUF file under Models.</translation>
    </message>
    <message>
        <source>Copied.</source>
        <translation>Copied.</translation>
    </message>
    <message>
        <source>Drop a model (.gguf) or an exported chat (.json) here.</source>
        <translation>Drop a model (.gguf) or an exported chat (.json) here.</translation>
    </message>
    <message>
        <source>Best available</source>
        <translation>Best available</translation>
    </message>
    <message>
        <source>%1 parameters · %2 · %3 layers</source>
        <translation>%1 parameters · %2 · %3 layers</translation>
    </message>
    <message>
        <source>Needs %1: %2 of weights and %3 for a conversation of any length</source>
        <translation>Needs %1: %2 of weights and %3 for a conversation of any length</translation>
    </message>
    <message>
        <source>The device has too little memory for this model, so it runs on the CPU. Choose a smaller model, or another device under Models.</source>
        <translation>The device has too little memory for this model, so it runs on the CPU. Choose a smaller model, or another device under Models.</translation>
    </message>
    <message>
        <source>The device cannot be used, so the model runs on the CPU. Look at its driver, or choose another device under Models.</source>
        <translation>The device cannot be used, so the model runs on the CPU. Look at its driver, or choose another device under Models.</translation>
    </message>
</context>
<context>
    <name>SettingsSheet</name>
    <message>
        <source>Settings</source>
        <translation>Settings</translation>
    </message>
    <message>
        <source>Look</source>
        <translation>Look</translation>
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
        <source>Size of text</source>
        <translation>Size of text</translation>
    </message>
    <message>
        <source>Of the size the system uses.</source>
        <translation>Of the size the system uses.</translation>
    </message>
    <message>
        <source>Font</source>
        <translation>Font</translation>
    </message>
    <message>
        <source>Language (from the next start)</source>
        <translation>Language (from the next start)</translation>
    </message>
    <message>
        <source>Show speed and length under the chat</source>
        <translation>Show speed and length under the chat</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>System prompt</translation>
    </message>
    <message>
        <source>Read at the beginning of every new chat. Empty: the one the model comes with.</source>
        <translation>Read at the beginning of every new chat. Empty: the one the model comes with.</translation>
    </message>
    <message>
        <source>For example: You answer in one sentence.</source>
        <translation>For example: You answer in one sentence.</translation>
    </message>
    <message>
        <source>How words are chosen</source>
        <translation>How words are chosen</translation>
    </message>
    <message>
        <source>Reset</source>
        <translation>Reset</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>Temperature</translation>
    </message>
    <message>
        <source>0 always takes the likeliest word. Higher is livelier and errs more.</source>
        <translation>0 always takes the likeliest word. Higher is livelier and errs more.</translation>
    </message>
    <message>
        <source>none</source>
        <translation>none</translation>
    </message>
    <message>
        <source>Chooses among the likeliest words that together have this share. 1 chooses among all.</source>
        <translation>Chooses among the likeliest words that together have this share. 1 chooses among all.</translation>
    </message>
    <message>
        <source>Chooses among so many words at most.</source>
        <translation>Chooses among so many words at most.</translation>
    </message>
    <message>
        <source>all</source>
        <translation>all</translation>
    </message>
    <message>
        <source>Leaves out words less likely than this share of the likeliest.</source>
        <translation>Leaves out words less likely than this share of the likeliest.</translation>
    </message>
    <message>
        <source>off</source>
        <translation>off</translation>
    </message>
    <message>
        <source>Against repetition</source>
        <translation>Against repetition</translation>
    </message>
    <message>
        <source>Longest answer</source>
        <translation>Longest answer</translation>
    </message>
    <message>
        <source>In tokens; a token is about three quarters of a word.</source>
        <translation>In tokens; a token is about three quarters of a word.</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Seed</translation>
    </message>
    <message>
        <source>The same seed gives the same answer to the same chat.</source>
        <translation>The same seed gives the same answer to the same chat.</translation>
    </message>
    <message>
        <source>different each time</source>
        <translation>different each time</translation>
    </message>
    <message>
        <source>Machine</source>
        <translation>Machine</translation>
    </message>
    <message>
        <source>Threads</source>
        <translation>Threads</translation>
    </message>
    <message>
        <source>How many processor cores compute. Changing it loads the model again.</source>
        <translation>How many processor cores compute. Changing it loads the model again.</translation>
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
        <source>one a core</source>
        <translation>one a core</translation>
    </message>
    <message>
        <source>Disk for going back at once (MB)</source>
        <translation>Disk for going back at once (MB)</translation>
    </message>
    <message>
        <source>Now %1 in %L2 snapshots, and %3 of text. Beyond it the oldest are dropped: going back there then takes some reading. Pinned places are kept.</source>
        <translation>Now %1 in %L2 snapshots, and %3 of text. Beyond it the oldest are dropped: going back there then takes some reading. Pinned places are kept.</translation>
    </message>
    <message>
        <source>Keyboard…</source>
        <translation>Keyboard…</translation>
    </message>
    <message>
        <source>Runnel Chat uses no network. Chats, settings and models stay in your own folders.</source>
        <translation>Runnel Chat uses no network. Chats, settings and models stay in your own folders.</translation>
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
        <source>Above 1, words used lately become less likely.</source>
        <translation>Above 1, words used lately become less likely.</translation>
    </message>
    <message>
        <source>Against loops (DRY)</source>
        <translation>Against loops (DRY)</translation>
    </message>
    <message>
        <source>Makes it unlikely that an answer says the same passage again. 0.8 is usual.</source>
        <translation>Makes it unlikely that an answer says the same passage again. 0.8 is usual.</translation>
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
        <source>Reading %L1 tokens… Esc stops</source>
        <translation>Reading %L1 tokens… Esc stops</translation>
    </message>
    <message>
        <source>Loading the model…</source>
        <translation>Loading the model…</translation>
    </message>
    <message>
        <source>Stopping…</source>
        <translation>Stopping…</translation>
    </message>
    <message>
        <source>first word after %L1 ms</source>
        <translation>first word after %L1 ms</translation>
    </message>
    <message>
        <source>%L1 tokens in this chat</source>
        <translation>%L1 tokens in this chat</translation>
    </message>
    <message>
        <source>memory %1</source>
        <translation>memory %1</translation>
    </message>
    <message>
        <source>A small model makes mistakes. Check what matters.</source>
        <translation>A small model makes mistakes. Check what matters.</translation>
    </message>
    <message>
        <source>%L1 tokens/s on %2</source>
        <translation>%L1 tokens/s on %2</translation>
    </message>
    <message>
        <source>, not drawn ahead: %1</source>
        <translation>, not drawn ahead: %1</translation>
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
        <source>Every message will be a place here that you can go back to.</source>
        <translation>Every message will be a place here that you can go back to.</translation>
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
        <source>here</source>
        <translation>here</translation>
    </message>
</context>
</TS>
