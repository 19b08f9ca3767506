<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de">
<context>
    <name>AskSheet</name>
    <message>
        <source>What do you still know?</source>
        <translation>Was weiß das Modell noch?</translation>
    </message>
    <message>
        <source>Nothing is added to this chat.</source>
        <translation>Diesem Chat wird nichts hinzugefügt.</translation>
    </message>
    <message>
        <source>Question</source>
        <translation>Frage</translation>
    </message>
    <message>
        <source>Stop</source>
        <translation>Stoppen</translation>
    </message>
    <message>
        <source>Ask</source>
        <translation>Fragen</translation>
    </message>
    <message>
        <source>What do you still know of our chat? List names, numbers and facts.</source>
        <translation>Was weißt du noch aus unserem Chat? Nenne Namen, Zahlen und Tatsachen.</translation>
    </message>
</context>
<context>
    <name>ChatSheet</name>
    <message>
        <source>This chat</source>
        <translation>Dieser Chat</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>Systemanweisung</translation>
    </message>
    <message>
        <source>As in Settings</source>
        <translation>Wie in den Einstellungen</translation>
    </message>
    <message>
        <source>This chat begins with a document, which takes the place of a system prompt.</source>
        <translation>Dieser Chat beginnt mit einem Dokument; es steht an der Stelle einer Systemanweisung.</translation>
    </message>
    <message>
        <source>With another system prompt this chat is read again from the start, as a new branch. The branch you see stays as it is.</source>
        <translation>Mit einer anderen Systemanweisung wird dieser Chat von Anfang an neu gelesen, als neuer Zweig. Der Zweig, den Sie sehen, bleibt, wie er ist.</translation>
    </message>
    <message>
        <source>Given to the model at the start of this chat. Leave empty to use the model&apos;s own.</source>
        <translation>Erhält das Modell am Anfang dieses Chats. Leer lassen, um die des Modells zu verwenden.</translation>
    </message>
    <message>
        <source>For example: Answer in one sentence.</source>
        <translation>Zum Beispiel: Antworte in einem Satz.</translation>
    </message>
    <message>
        <source>Start a new branch with it</source>
        <translation>Neuen Zweig damit beginnen</translation>
    </message>
    <message>
        <source>Model</source>
        <translation>Modell</translation>
    </message>
    <message>
        <source>Loaded when this chat is opened. Another model reads the text of the chat again.</source>
        <translation>Wird geladen, wenn dieser Chat geöffnet wird. Ein anderes Modell liest den Text des Chats neu.</translation>
    </message>
    <message>
        <source>%1 (missing)</source>
        <translation>%1 (fehlt)</translation>
    </message>
    <message>
        <source>As in Settings (%1)</source>
        <translation>Wie in den Einstellungen (%1)</translation>
    </message>
    <message>
        <source>Sampling</source>
        <translation>Sampling</translation>
    </message>
    <message>
        <source>In Settings it is %1.</source>
        <translation>In den Einstellungen ist es %1.</translation>
    </message>
    <message>
        <source>Maximum answer length</source>
        <translation>Maximale Antwortlänge</translation>
    </message>
    <message>
        <source>In tokens. A token is about three quarters of a word.</source>
        <translation>In Token. Ein Token entspricht etwa drei Vierteln eines Wortes.</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Startwert (Seed)</translation>
    </message>
    <message>
        <source>With the same seed, the same chat gets the same answer.</source>
        <translation>Mit demselben Startwert erhält derselbe Chat dieselbe Antwort.</translation>
    </message>
    <message>
        <source>random</source>
        <translation>zufällig</translation>
    </message>
</context>
<context>
    <name>CodeBlock</name>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>Copy code</source>
        <translation>Code kopieren</translation>
    </message>
    <message>
        <source>Code block, %1</source>
        <translation>Codeblock, %1</translation>
    </message>
</context>
<context>
    <name>CompareSheet</name>
    <message>
        <source>Compare versions</source>
        <translation>Fassungen vergleichen</translation>
    </message>
    <message>
        <source>Previous version</source>
        <translation>Vorige Fassung</translation>
    </message>
    <message>
        <source>Version %1 of %2</source>
        <translation>Fassung %1 von %2</translation>
    </message>
    <message>
        <source>Next version</source>
        <translation>Nächste Fassung</translation>
    </message>
    <message>
        <source>Continue with this version</source>
        <translation>Mit dieser Fassung fortfahren</translation>
    </message>
</context>
<context>
    <name>Composer</name>
    <message>
        <source>Message</source>
        <translation>Nachricht</translation>
    </message>
    <message>
        <source>Stop</source>
        <translation>Stoppen</translation>
    </message>
    <message>
        <source>Send</source>
        <translation>Senden</translation>
    </message>
    <message>
        <source>Sent when the other answer is done.</source>
        <translation>Wird nach der anderen Antwort gesendet.</translation>
    </message>
    <message>
        <source>Another chat is being answered. Enter queues your message.</source>
        <translation>Ein anderer Chat wird gerade beantwortet. Eingabe stellt Ihre Nachricht in die Warteschlange.</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Answers come as JSON by %1.</source>
        <translation>Antworten kommen als JSON nach %1.</translation>
    </message>
    <message>
        <source>Answers come as JSON.</source>
        <translation>Antworten kommen als JSON.</translation>
    </message>
    <message>
        <source>Answer freely</source>
        <translation>Frei antworten</translation>
    </message>
    <message>
        <source>Answer as</source>
        <translation>Antworten als</translation>
    </message>
    <message>
        <source>Free text</source>
        <translation>Freier Text</translation>
    </message>
    <message>
        <source>JSON by a schema…</source>
        <translation>JSON nach einem Schema …</translation>
    </message>
</context>
<context>
    <name>ConversationPane</name>
    <message>
        <source>New chat</source>
        <translation>Neuer Chat</translation>
    </message>
    <message>
        <source>Choose a model…</source>
        <translation>Modell wählen …</translation>
    </message>
    <message>
        <source>Model: %1</source>
        <translation>Modell: %1</translation>
    </message>
    <message>
        <source>Messages</source>
        <translation>Nachrichten</translation>
    </message>
    <message>
        <source>Show the chat list</source>
        <translation>Chatliste einblenden</translation>
    </message>
    <message>
        <source>Loading… %1%</source>
        <translation>Lädt … %1 %</translation>
    </message>
    <message>
        <source>Show the timeline</source>
        <translation>Zeitleiste einblenden</translation>
    </message>
    <message>
        <source>Jump to latest</source>
        <translation>Zum neuesten Text springen</translation>
    </message>
    <message>
        <source>You went back. Your next message starts a new branch.</source>
        <translation>Sie sind zurückgegangen. Ihre nächste Nachricht beginnt einen neuen Zweig.</translation>
    </message>
    <message>
        <source>Get an answer</source>
        <translation>Antwort anfordern</translation>
    </message>
    <message>
        <source>Back to where I was</source>
        <translation>Zurück zur letzten Stelle</translation>
    </message>
    <message>
        <source>Answer finished.</source>
        <translation>Antwort fertig.</translation>
    </message>
    <message>
        <source>Answering…</source>
        <translation>Antwortet …</translation>
    </message>
    <message>
        <source>This chat</source>
        <translation>Dieser Chat</translation>
    </message>
</context>
<context>
    <name>DeleteDialog</name>
    <message numerus="yes">
        <source>Delete %n messages on %1 branches?</source>
        <translation>
            <numerusform>%n Nachricht auf %1 Zweigen löschen?</numerusform>
            <numerusform>%n Nachrichten auf %1 Zweigen löschen?</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Delete %n messages?</source>
        <translation>
            <numerusform>%n Nachricht löschen?</numerusform>
            <numerusform>%n Nachrichten löschen?</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n pinned places go too.</source>
        <translation>
            <numerusform>Auch %n angeheftete Stelle.</numerusform>
            <numerusform>Auch %n angeheftete Stellen.</numerusform>
        </translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Löschen</translation>
    </message>
</context>
<context>
    <name>EmptyPage</name>
    <message>
        <source>What shall we talk about?</source>
        <translation>Worüber sprechen wir?</translation>
    </message>
    <message>
        <source>Choose a model…</source>
        <translation>Modell wählen …</translation>
    </message>
    <message>
        <source>How do I make a good cup of tea?</source>
        <translation>Wie mache ich eine gute Tasse Tee?</translation>
    </message>
    <message>
        <source>Write a short poem about a river.</source>
        <translation>Schreibe ein kurzes Gedicht über einen Fluss.</translation>
    </message>
    <message>
        <source>Choose a model to start.</source>
        <translation>Wählen Sie ein Modell, um zu beginnen.</translation>
    </message>
    <message>
        <source>Everything stays on this device. You can come back to any message and continue from there.</source>
        <translation>Alles bleibt auf diesem Gerät. Zu jeder Nachricht können Sie zurückkehren und dort weitermachen.</translation>
    </message>
    <message>
        <source>Explain what a queue is, with a code example.</source>
        <translation>Erkläre mit einem Codebeispiel, was eine Warteschlange ist.</translation>
    </message>
    <message>
        <source>Take a tour in three steps</source>
        <translation>Kurze Tour in drei Schritten</translation>
    </message>
    <message>
        <source>No, thanks</source>
        <translation>Nein, danke</translation>
    </message>
</context>
<context>
    <name>ExportDialog</name>
    <message>
        <source>Export this chat</source>
        <translation>Diesen Chat exportieren</translation>
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
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Save</source>
        <translation>Speichern</translation>
    </message>
    <message>
        <source>Choose a folder</source>
        <translation>Ordner wählen</translation>
    </message>
    <message>
        <source>All branches. Can be imported again.</source>
        <translation>Alle Zweige. Kann wieder importiert werden.</translation>
    </message>
    <message>
        <source>The branch you see, for reading.</source>
        <translation>Der sichtbare Zweig, zum Lesen.</translation>
    </message>
    <message>
        <source>File name</source>
        <translation>Dateiname</translation>
    </message>
    <message>
        <source>This file already exists and will be replaced.</source>
        <translation>Diese Datei ist schon vorhanden und wird ersetzt.</translation>
    </message>
</context>
<context>
    <name>FieldMenu</name>
    <message>
        <source>Cut</source>
        <translation>Ausschneiden</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>Paste</source>
        <translation>Einfügen</translation>
    </message>
    <message>
        <source>Select all</source>
        <translation>Alles auswählen</translation>
    </message>
</context>
<context>
    <name>FilePicker</name>
    <message>
        <source>Folders</source>
        <translation>Ordner</translation>
    </message>
    <message>
        <source>Folders and files</source>
        <translation>Ordner und Dateien</translation>
    </message>
    <message>
        <source>Home</source>
        <translation>Persönlicher Ordner</translation>
    </message>
    <message>
        <source>Downloads</source>
        <translation>Downloads</translation>
    </message>
    <message>
        <source>Use this folder</source>
        <translation>Diesen Ordner verwenden</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>Öffnen</translation>
    </message>
    <message>
        <source>No matching files in this folder.</source>
        <translation>Keine passenden Dateien in diesem Ordner.</translation>
    </message>
    <message>
        <source>Wrong file type.</source>
        <translation>Falscher Dateityp.</translation>
    </message>
    <message>
        <source>Nothing to open at this path.</source>
        <translation>Unter diesem Pfad gibt es nichts zu öffnen.</translation>
    </message>
    <message>
        <source>Parent folder</source>
        <translation>Übergeordneter Ordner</translation>
    </message>
    <message>
        <source>Folder path</source>
        <translation>Ordnerpfad</translation>
    </message>
    <message>
        <source>Folder or file path</source>
        <translation>Ordner- oder Dateipfad</translation>
    </message>
    <message>
        <source>No folders here.</source>
        <translation>Keine Ordner vorhanden.</translation>
    </message>
</context>
<context>
    <name>FileRow</name>
    <message>
        <source>Folder %1</source>
        <translation>Ordner %1</translation>
    </message>
</context>
<context>
    <name>FolderDialog</name>
    <message>
        <source>No folder</source>
        <translation>Kein Ordner</translation>
    </message>
    <message>
        <source>Move “%1” to a folder</source>
        <translation>„%1“ in einen Ordner verschieben</translation>
    </message>
    <message>
        <source>New folder</source>
        <translation>Neuer Ordner</translation>
    </message>
    <message>
        <source>Name of the folder</source>
        <translation>Name des Ordners</translation>
    </message>
    <message>
        <source>Create and move</source>
        <translation>Anlegen und verschieben</translation>
    </message>
    <message>
        <source>Create</source>
        <translation>Anlegen</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Folders</source>
        <translation>Ordner</translation>
    </message>
</context>
<context>
    <name>KeysSheet</name>
    <message>
        <source>Send</source>
        <translation>Senden</translation>
    </message>
    <message>
        <source>New line</source>
        <translation>Neue Zeile</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>Neuer Chat</translation>
    </message>
    <message>
        <source>Search all messages</source>
        <translation>Alle Nachrichten durchsuchen</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>Modelle</translation>
    </message>
    <message>
        <source>Export this chat</source>
        <translation>Diesen Chat exportieren</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
    <message>
        <source>Scroll</source>
        <translation>Scrollen</translation>
    </message>
    <message>
        <source>Compare the last versions</source>
        <translation>Letzte Fassungen vergleichen</translation>
    </message>
    <message>
        <source>Keyboard shortcuts</source>
        <translation>Tastenkürzel</translation>
    </message>
    <message>
        <source>Edit the last message</source>
        <translation>Letzte Nachricht bearbeiten</translation>
    </message>
    <message>
        <source>Stop the answer or close a page</source>
        <translation>Antwort stoppen oder Seite schließen</translation>
    </message>
    <message>
        <source>Go to the message field</source>
        <translation>Zum Textfeld</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>Erneut antworten</translation>
    </message>
    <message>
        <source>Undo the last deletion</source>
        <translation>Letztes Löschen rückgängig machen</translation>
    </message>
    <message>
        <source>Show or hide the chat list, the timeline</source>
        <translation>Chatliste, Zeitleiste ein- oder ausblenden</translation>
    </message>
    <message>
        <source>Larger, smaller, default text size</source>
        <translation>Text vergrößern, verkleinern, zurücksetzen</translation>
    </message>
    <message>
        <source>Back to the place before, forward again</source>
        <translation>Zurück zur vorigen Stelle, wieder vorwärts</translation>
    </message>
    <message>
        <source>Quit</source>
        <translation>Beenden</translation>
    </message>
    <message>
        <source>Show this list</source>
        <translation>Diese Liste anzeigen</translation>
    </message>
    <message>
        <source>Take a tour in three steps</source>
        <translation>Kurze Tour in drei Schritten</translation>
    </message>
    <message>
        <source>Settings of this chat</source>
        <translation>Einstellungen dieses Chats</translation>
    </message>
    <message>
        <source>Rename or delete the selected chat or folder</source>
        <translation>Ausgewählten Chat oder Ordner umbenennen oder löschen</translation>
    </message>
    <message>
        <source>Fold or unfold the selected folder or branch</source>
        <translation>Ausgewählten Ordner oder Zweig ein- oder ausklappen</translation>
    </message>
</context>
<context>
    <name>LibraryPane</name>
    <message>
        <source>New chat</source>
        <translation>Neuer Chat</translation>
    </message>
    <message>
        <source>Search all messages</source>
        <translation>Alle Nachrichten durchsuchen</translation>
    </message>
    <message>
        <source>Clear the search</source>
        <translation>Suche löschen</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>Angeheftet</translation>
    </message>
    <message>
        <source>Today</source>
        <translation>Heute</translation>
    </message>
    <message>
        <source>Earlier</source>
        <translation>Früher</translation>
    </message>
    <message>
        <source>Messages</source>
        <translation>Nachrichten</translation>
    </message>
    <message>
        <source>Chats</source>
        <translation>Chats</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>Modelle</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
    <message>
        <source>Hide the chat list</source>
        <translation>Chatliste ausblenden</translation>
    </message>
    <message>
        <source>Previous 7 days</source>
        <translation>Vorige 7 Tage</translation>
    </message>
    <message>
        <source>Chat titles</source>
        <translation>Chattitel</translation>
    </message>
    <message>
        <source>No results.</source>
        <translation>Keine Treffer.</translation>
    </message>
    <message>
        <source>Your chats will appear here.</source>
        <translation>Hier erscheinen Ihre Chats.</translation>
    </message>
    <message>
        <source>More</source>
        <translation>Mehr</translation>
    </message>
    <message>
        <source>Import chats…</source>
        <translation>Chats importieren …</translation>
    </message>
    <message>
        <source>Export this chat…</source>
        <translation>Diesen Chat exportieren …</translation>
    </message>
    <message>
        <source>Recently deleted</source>
        <translation>Zuletzt gelöscht</translation>
    </message>
    <message>
        <source>Read a document…</source>
        <translation>Ein Dokument lesen …</translation>
    </message>
    <message>
        <source>Folders</source>
        <translation>Ordner</translation>
    </message>
    <message>
        <source>New folder…</source>
        <translation>Neuer Ordner …</translation>
    </message>
    <message>
        <source>Read a folder…</source>
        <translation>Ordner lesen …</translation>
    </message>
</context>
<context>
    <name>LibraryRow</name>
    <message>
        <source>Chat title</source>
        <translation>Chattitel</translation>
    </message>
    <message>
        <source>Answering…</source>
        <translation>Antwortet …</translation>
    </message>
    <message>
        <source>More options for %1</source>
        <translation>Weitere Optionen für %1</translation>
    </message>
    <message>
        <source>Folder %1</source>
        <translation>Ordner %1</translation>
    </message>
    <message numerus="yes">
        <source>%n chats</source>
        <translation>
            <numerusform>%n Chat</numerusform>
            <numerusform>%n Chats</numerusform>
        </translation>
    </message>
    <message>
        <source>folded</source>
        <translation>eingeklappt</translation>
    </message>
    <message>
        <source>unfolded</source>
        <translation>ausgeklappt</translation>
    </message>
    <message>
        <source>Folder deleted. Its chats are kept.</source>
        <translation>Ordner gelöscht. Seine Chats bleiben erhalten.</translation>
    </message>
    <message>
        <source>Name of the folder</source>
        <translation>Name des Ordners</translation>
    </message>
    <message>
        <source>selected</source>
        <translation>ausgewählt</translation>
    </message>
</context>
<context>
    <name>LibraryRowMenu</name>
    <message>
        <source>Unpin</source>
        <translation>Nicht mehr anheften</translation>
    </message>
    <message>
        <source>Pin to the top</source>
        <translation>Oben anheften</translation>
    </message>
    <message>
        <source>Rename</source>
        <translation>Umbenennen</translation>
    </message>
    <message>
        <source>Move to a folder…</source>
        <translation>In einen Ordner verschieben …</translation>
    </message>
    <message>
        <source>Export…</source>
        <translation>Exportieren …</translation>
    </message>
    <message>
        <source>Delete folder (chats are kept)</source>
        <translation>Ordner löschen (Chats bleiben)</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Löschen</translation>
    </message>
</context>
<context>
    <name>LinkDialog</name>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>Öffnen</translation>
    </message>
    <message>
        <source>Open this link in your browser? Models sometimes invent addresses.</source>
        <translation>Diesen Link im Browser öffnen? Modelle erfinden manchmal Adressen.</translation>
    </message>
    <message>
        <source>Only web and mail links can be opened.</source>
        <translation>Nur Web- und E-Mail-Links können geöffnet werden.</translation>
    </message>
</context>
<context>
    <name>Main</name>
    <message>
        <source>Open a model</source>
        <translation>Modell öffnen</translation>
    </message>
    <message>
        <source>No folders or models (.gguf) here.</source>
        <translation>Keine Ordner oder Modelle (.gguf) vorhanden.</translation>
    </message>
    <message>
        <source>Import chats</source>
        <translation>Chats importieren</translation>
    </message>
    <message>
        <source>No chats to import in this folder.</source>
        <translation>Keine Chats zum Importieren in diesem Ordner.</translation>
    </message>
    <message>
        <source>Export to a folder</source>
        <translation>In einen Ordner exportieren</translation>
    </message>
    <message>
        <source>Save this place in a folder</source>
        <translation>Diese Stelle in einem Ordner sichern</translation>
    </message>
    <message>
        <source>Read a document</source>
        <translation>Ein Dokument lesen</translation>
    </message>
    <message>
        <source>Choose a JSON schema</source>
        <translation>JSON-Schema auswählen</translation>
    </message>
    <message>
        <source>Read a folder</source>
        <translation>Ordner lesen</translation>
    </message>
</context>
<context>
    <name>MemoryMeter</name>
    <message>
        <source>%L1 tokens so far, no limit. The model&apos;s memory of this chat always takes %2.</source>
        <translation>Bisher %L1 Token, kein Limit. Das Modellgedächtnis dieses Chats braucht immer %2.</translation>
    </message>
    <message>
        <source>%L1 tokens so far. No limit; old details fade.</source>
        <translation>Bisher %L1 Token. Kein Limit; alte Einzelheiten verblassen.</translation>
    </message>
    <message>
        <source>About %L1 tokens so far. No limit; old details fade.</source>
        <translation>Bisher etwa %L1 Token. Kein Limit; alte Einzelheiten verblassen.</translation>
    </message>
</context>
<context>
    <name>MessageActions</name>
    <message>
        <source>Previous version</source>
        <translation>Vorige Fassung</translation>
    </message>
    <message>
        <source>Version %1 of %2</source>
        <translation>Fassung %1 von %2</translation>
    </message>
    <message>
        <source>Next version</source>
        <translation>Nächste Fassung</translation>
    </message>
    <message>
        <source>Compare versions</source>
        <translation>Fassungen vergleichen</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>Edit</source>
        <translation>Bearbeiten</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>Erneut antworten</translation>
    </message>
    <message>
        <source>Continue from here</source>
        <translation>Hier weitermachen</translation>
    </message>
    <message>
        <source>More options</source>
        <translation>Weitere Optionen</translation>
    </message>
</context>
<context>
    <name>MessageDelegate</name>
    <message>
        <source>You</source>
        <translation>Sie</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>Systemanweisung</translation>
    </message>
    <message>
        <source>Answer</source>
        <translation>Antwort</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>Angeheftet</translation>
    </message>
    <message>
        <source>Answering…</source>
        <translation>Antwortet …</translation>
    </message>
    <message>
        <source>Reached the length limit</source>
        <translation>Längengrenze erreicht</translation>
    </message>
    <message>
        <source>Stopped</source>
        <translation>Gestoppt</translation>
    </message>
    <message>
        <source>Continue</source>
        <translation>Fortsetzen</translation>
    </message>
</context>
<context>
    <name>MessageEditor</name>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Send as a new branch</source>
        <translation>Als neuen Zweig senden</translation>
    </message>
    <message>
        <source>Edit message</source>
        <translation>Nachricht bearbeiten</translation>
    </message>
    <message>
        <source>Save as a new version</source>
        <translation>Als neue Fassung speichern</translation>
    </message>
</context>
<context>
    <name>MessageMenu</name>
    <message>
        <source>Unpin</source>
        <translation>Nicht mehr anheften</translation>
    </message>
    <message>
        <source>Name this place…</source>
        <translation>Diese Stelle benennen …</translation>
    </message>
    <message>
        <source>Compare versions</source>
        <translation>Fassungen vergleichen</translation>
    </message>
    <message>
        <source>Continue from here</source>
        <translation>Hier weitermachen</translation>
    </message>
    <message>
        <source>Edit this answer</source>
        <translation>Diese Antwort bearbeiten</translation>
    </message>
    <message>
        <source>Pin (always instant)</source>
        <translation>Anheften (immer sofort erreichbar)</translation>
    </message>
    <message>
        <source>Delete from here…</source>
        <translation>Ab hier löschen …</translation>
    </message>
    <message>
        <source>Try three answers</source>
        <translation>Drei Antworten ausprobieren</translation>
    </message>
    <message>
        <source>Save this place as a file…</source>
        <translation>Diese Stelle als Datei sichern …</translation>
    </message>
    <message>
        <source>Begin a new chat here</source>
        <translation>Neuen Chat hier beginnen</translation>
    </message>
</context>
<context>
    <name>ModelRow</name>
    <message>
        <source>Cannot be used: %1</source>
        <translation>Nicht verwendbar: %1</translation>
    </message>
    <message>
        <source>Loading the model…</source>
        <translation>Das Modell wird geladen …</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>In use</source>
        <translation>Wird verwendet</translation>
    </message>
    <message>
        <source>Needs more memory than the %1 free now.</source>
        <translation>Braucht mehr Speicher als die %1, die gerade frei sind.</translation>
    </message>
</context>
<context>
    <name>ModelSheet</name>
    <message>
        <source>Models</source>
        <translation>Modelle</translation>
    </message>
    <message>
        <source>Device</source>
        <translation>Gerät</translation>
    </message>
    <message>
        <source>Open a file…</source>
        <translation>Datei öffnen …</translation>
    </message>
    <message>
        <source>Run on</source>
        <translation>Ausführen auf</translation>
    </message>
    <message>
        <source>You can also drop a model file (.gguf) onto this window.</source>
        <translation>Sie können Modelldateien (.gguf) auch in dieses Fenster ziehen.</translation>
    </message>
</context>
<context>
    <name>NameDialog</name>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Save</source>
        <translation>Speichern</translation>
    </message>
    <message>
        <source>Name for this place</source>
        <translation>Name dieser Stelle</translation>
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
        <translation>Rückgängig</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>Schließen</translation>
    </message>
    <message>
        <source>Hide details</source>
        <translation>Details ausblenden</translation>
    </message>
</context>
<context>
    <name>NumberSetting</name>
    <message>
        <source>%1%</source>
        <translation>%1&#xa0;%</translation>
    </message>
</context>
<context>
    <name>PlacePreview</name>
    <message>
        <source>You</source>
        <translation>Sie</translation>
    </message>
    <message>
        <source>Answer</source>
        <translation>Antwort</translation>
    </message>
    <message>
        <source>Continue from here</source>
        <translation>Hier weitermachen</translation>
    </message>
</context>
<context>
    <name>QShortcut</name>
    <message>
        <source>Ctrl</source>
        <translation>Strg</translation>
    </message>
    <message>
        <source>Shift</source>
        <translation>Umschalt</translation>
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
        <translation>Eingabe</translation>
    </message>
    <message>
        <source>Del</source>
        <translation>Entf</translation>
    </message>
    <message>
        <source>PgUp</source>
        <translation>Bild auf</translation>
    </message>
    <message>
        <source>PgDown</source>
        <translation>Bild ab</translation>
    </message>
    <message>
        <source>Up</source>
        <translation>Oben</translation>
    </message>
    <message>
        <source>Left</source>
        <translation>Links</translation>
    </message>
    <message>
        <source>Right</source>
        <translation>Rechts</translation>
    </message>
    <message>
        <source>Backspace</source>
        <translation>Rücktaste</translation>
    </message>
</context>
<context>
    <name>ReadDialog</name>
    <message>
        <source>Read %1? %L2 tokens, about %3 s. Old details fade.</source>
        <translation>%1 lesen? %L2 Token, etwa %3 s. Alte Einzelheiten verblassen.</translation>
    </message>
    <message>
        <source>Read %1? About %L2 tokens. Old details fade.</source>
        <translation>%1 lesen? Etwa %L2 Token. Alte Einzelheiten verblassen.</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Read</source>
        <translation>Lesen</translation>
    </message>
    <message>
        <source>Opening %1…</source>
        <translation>%1 wird geöffnet …</translation>
    </message>
    <message numerus="yes">
        <source>%n text and source files.</source>
        <translation>
            <numerusform>%n Text- oder Quelldatei.</numerusform>
            <numerusform>%n Text- und Quelldateien.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n left out: no text, or larger than 1 MB.</source>
        <translation>
            <numerusform>%n ausgelassen: kein Text oder größer als 1 MB.</numerusform>
            <numerusform>%n ausgelassen: kein Text oder größer als 1 MB.</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>RemindBlock</name>
    <message numerus="yes">
        <source>Re-read %n earlier messages</source>
        <translation>
            <numerusform>%n frühere Nachricht nachgelesen</numerusform>
            <numerusform>%n frühere Nachrichten nachgelesen</numerusform>
        </translation>
    </message>
    <message>
        <source>Hide what was re-read</source>
        <translation>Nachgelesenes ausblenden</translation>
    </message>
    <message>
        <source>Show what was re-read</source>
        <translation>Nachgelesenes anzeigen</translation>
    </message>
    <message>
        <source>Show this message</source>
        <translation>Diese Nachricht anzeigen</translation>
    </message>
</context>
<context>
    <name>Runnel</name>
    <message>
        <source>Not enough memory. Close other programs or choose a smaller model.</source>
        <translation>Zu wenig Speicher. Schließen Sie andere Programme oder wählen Sie ein kleineres Modell.</translation>
    </message>
    <message>
        <source>Stopped.</source>
        <translation>Gestoppt.</translation>
    </message>
    <message>
        <source>Exported to %1</source>
        <translation>Exportiert nach %1</translation>
    </message>
    <message>
        <source>Copied.</source>
        <translation>Kopiert.</translation>
    </message>
    <message>
        <source>%1 parameters · %2 · %3 layers</source>
        <translation>%1 Parameter · %2 · %3 Schichten</translation>
    </message>
    <message>
        <source>Couldn&apos;t save to %1: the disk is full.</source>
        <translation>%1 konnte nicht gespeichert werden: Der Datenträger ist voll.</translation>
    </message>
    <message>
        <source>Couldn&apos;t save to %1: no permission to write there.</source>
        <translation>%1 konnte nicht gespeichert werden: Schreibrechte fehlen.</translation>
    </message>
    <message>
        <source>Your chat library %1 is damaged.</source>
        <translation>Ihre Chat-Bibliothek %1 ist beschädigt.</translation>
    </message>
    <message>
        <source>%1 was made with another model or a newer version.</source>
        <translation>%1 stammt von einem anderen Modell oder einer neueren Version.</translation>
    </message>
    <message>
        <source>Couldn&apos;t read %1: %2.</source>
        <translation>%1 konnte nicht gelesen werden: %2.</translation>
    </message>
    <message>
        <source>Can&apos;t find %1. Was it moved or deleted?</source>
        <translation>%1 wurde nicht gefunden. Verschoben oder gelöscht?</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: it is damaged or not a model file. Download it again.</source>
        <translation>%1 ist nicht lesbar: beschädigt oder keine Modelldatei. Laden Sie sie erneut herunter.</translation>
    </message>
    <message>
        <source>This version can&apos;t run %1 (%2). Choose another model.</source>
        <translation>Diese Version kann %1 nicht ausführen (%2). Wählen Sie ein anderes Modell.</translation>
    </message>
    <message>
        <source>Couldn&apos;t save to %1: %2.</source>
        <translation>%1 konnte nicht gespeichert werden: %2.</translation>
    </message>
    <message>
        <source>Can&apos;t import %1: this is not a chat export of Runnel, ChatGPT or Open WebUI.</source>
        <translation>%1 konnte nicht importiert werden: kein Export von Runnel, ChatGPT oder Open WebUI.</translation>
    </message>
    <message>
        <source>No model selected. Choose one under Models.</source>
        <translation>Kein Modell ausgewählt. Wählen Sie unter „Modelle“ eines aus.</translation>
    </message>
    <message>
        <source>Couldn&apos;t read or write a file: %1.</source>
        <translation>Eine Datei konnte nicht gelesen oder geschrieben werden: %1.</translation>
    </message>
    <message>
        <source>A file is damaged: %1.</source>
        <translation>Eine Datei ist beschädigt: %1.</translation>
    </message>
    <message>
        <source>this model</source>
        <translation>dieses Modell</translation>
    </message>
    <message>
        <source>This</source>
        <translation>Dies</translation>
    </message>
    <message>
        <source>Internal error. Please report it with the details below.</source>
        <translation>Interner Fehler. Bitte melden Sie ihn mit den Details unten.</translation>
    </message>
    <message>
        <source>%1 has too little memory for this model, so it runs on the CPU. Choose a smaller model, or another device under Models.</source>
        <translation>%1 hat zu wenig Speicher für dieses Modell, deshalb läuft es auf der CPU. Wählen Sie ein kleineres Modell oder unter „Modelle“ ein anderes Gerät.</translation>
    </message>
    <message>
        <source>%1 can&apos;t be used, so the model runs on the CPU. Check its driver, or choose another device under Models.</source>
        <translation>%1 ist nicht verwendbar, deshalb läuft das Modell auf der CPU. Prüfen Sie den Treiber oder wählen Sie unter „Modelle“ ein anderes Gerät.</translation>
    </message>
    <message>
        <source>Chat moved to Recently deleted.</source>
        <translation>Chat nach „Zuletzt gelöscht“ verschoben.</translation>
    </message>
    <message>
        <source>Messages deleted.</source>
        <translation>Nachrichten gelöscht.</translation>
    </message>
    <message>
        <source>A new library was begun.</source>
        <translation>Eine neue Bibliothek wurde begonnen.</translation>
    </message>
    <message>
        <source>The old file is kept: %1</source>
        <translation>Die alte Datei bleibt: %1</translation>
    </message>
    <message numerus="yes">
        <source>%n chats imported.</source>
        <translation>
            <numerusform>%n Chat importiert.</numerusform>
            <numerusform>%n Chats importiert.</numerusform>
        </translation>
    </message>
    <message>
        <source>No model found. Choose a model file (.gguf) under Models.</source>
        <translation>Kein Modell gefunden. Wählen Sie unter „Modelle“ eine Modelldatei (.gguf).</translation>
    </message>
    <message>
        <source>Save into a new library</source>
        <translation>In neue Bibliothek retten</translation>
    </message>
    <message>
        <source>Begin a new library (the old file is kept)</source>
        <translation>Neue Bibliothek beginnen (die alte Datei bleibt)</translation>
    </message>
    <message>
        <source>Automatic (best available)</source>
        <translation>Automatisch (bestes verfügbares)</translation>
    </message>
    <message>
        <source>Needs %1: %2 for the model, %3 for a chat of any length</source>
        <translation>Braucht %1: %2 für das Modell, %3 für einen Chat beliebiger Länge</translation>
    </message>
    <message numerus="yes">
        <source>%n messages deleted.</source>
        <translation>
            <numerusform>%n Nachricht gelöscht.</numerusform>
            <numerusform>%n Nachrichten gelöscht.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n chats saved into a new library.</source>
        <translation>
            <numerusform>%n Chat in eine neue Bibliothek gerettet.</numerusform>
            <numerusform>%n Chats in eine neue Bibliothek gerettet.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n messages could not be read.</source>
        <translation>
            <numerusform>%n Nachricht war nicht lesbar.</numerusform>
            <numerusform>%n Nachrichten waren nicht lesbar.</numerusform>
        </translation>
    </message>
    <message>
        <source>%1 stopped working. Try again, or choose another device under Models.</source>
        <translation>%1 reagiert nicht mehr. Versuchen Sie es erneut oder wählen Sie unter „Modelle“ ein anderes Gerät.</translation>
    </message>
    <message>
        <source>The device</source>
        <translation>Das Gerät</translation>
    </message>
    <message>
        <source>%1 is out of range.</source>
        <translation>%1 liegt außerhalb des gültigen Bereichs.</translation>
    </message>
    <message>
        <source>Saved. Coming back here will take a moment: its state couldn&apos;t be written to %1 (%2).</source>
        <translation>Gespeichert. Die Rückkehr hierher wird etwas dauern: Der Zustand konnte nicht nach %1 geschrieben werden (%2).</translation>
    </message>
    <message numerus="yes">
        <source>%n chats can be read.</source>
        <translation>
            <numerusform>%n Chat ist lesbar.</numerusform>
            <numerusform>%n Chats sind lesbar.</numerusform>
        </translation>
    </message>
    <message>
        <source>New messages are kept in %1.</source>
        <translation>Neue Nachrichten werden in %1 gespeichert.</translation>
    </message>
    <message>
        <source>Open what can be read</source>
        <translation>Lesbares öffnen</translation>
    </message>
    <message>
        <source>Reset sampling</source>
        <translation>Sampling zurücksetzen</translation>
    </message>
    <message>
        <source>Instant</source>
        <translation>Sofort</translation>
    </message>
    <message>
        <source>Reads %1 tokens</source>
        <translation>Liest %1 Token</translation>
    </message>
    <message>
        <source>Reads %1 tokens, about %2 s</source>
        <translation>Liest %1 Token, etwa %2 s</translation>
    </message>
    <message>
        <source>Made with another model: its text will be read, about %1 s.</source>
        <translation>Von einem anderen Modell: Der Text wird gelesen, etwa %1 s.</translation>
    </message>
    <message>
        <source>Made with another model: its text will be read.</source>
        <translation>Von einem anderen Modell: Der Text wird gelesen.</translation>
    </message>
    <message>
        <source>Can&apos;t open %1. Drop a model (.gguf), a chat export (.json) or a document.</source>
        <translation>%1 kann nicht geöffnet werden. Ziehen Sie ein Modell (.gguf), einen Chat-Export (.json) oder ein Dokument hierher.</translation>
    </message>
    <message>
        <source>After %1</source>
        <translation>Nach %1</translation>
    </message>
    <message>
        <source>Can&apos;t answer as JSON: %1.</source>
        <translation>Antworten als JSON sind nicht möglich: %1.</translation>
    </message>
    <message>
        <source>Can&apos;t answer by %1: %2.</source>
        <translation>Antworten nach %1 sind nicht möglich: %2.</translation>
    </message>
    <message>
        <source>Can&apos;t find %1, the model of this chat. Choose another one under Models.</source>
        <translation>Kann %1, das Modell dieses Chats, nicht finden. Wählen Sie unter Modelle ein anderes.</translation>
    </message>
    <message>
        <source>Can&apos;t find %1, the model of this chat. It goes on with %2, which reads its text again.</source>
        <translation>Kann %1, das Modell dieses Chats, nicht finden. Er geht mit %2 weiter, das seinen Text neu liest.</translation>
    </message>
    <message>
        <source>%1 has no text or source files to read.</source>
        <translation>%1 enthält keine lesbaren Text- oder Quelldateien.</translation>
    </message>
    <message>
        <source>%1 has no text to read (scanned pages?).</source>
        <translation>%1 enthält keinen lesbaren Text (gescannte Seiten?).</translation>
    </message>
    <message>
        <source>%1 has no text to read.</source>
        <translation>%1 enthält keinen lesbaren Text.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: it is protected by a password. Save it without one.</source>
        <translation>%1 kann nicht gelesen werden: durch ein Kennwort geschützt. Speichern Sie die Datei ohne Kennwort.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: it is too large. Choose a folder inside it.</source>
        <translation>%1 kann nicht gelesen werden: zu groß. Wählen Sie einen Ordner darin.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: it is damaged or not what its name says.</source>
        <translation>%1 kann nicht gelesen werden: beschädigt oder nicht das, was der Name sagt.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: this system can&apos;t lock in the program that reads such files. Save it as text.</source>
        <translation>%1 kann nicht gelesen werden: Dieses System kann das Programm, das solche Dateien liest, nicht abschotten. Speichern Sie die Datei als Text.</translation>
    </message>
    <message>
        <source>This version can&apos;t read this kind of file: %1. Save it as text.</source>
        <translation>Diese Version kann diese Art von Datei nicht lesen: %1. Speichern Sie die Datei als Text.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: it is too large. Save a smaller part.</source>
        <translation>%1 kann nicht gelesen werden: zu groß. Speichern Sie einen kleineren Teil.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: that needs too much memory. Save a smaller part.</source>
        <translation>%1 kann nicht gelesen werden: Das braucht zu viel Speicher. Speichern Sie einen kleineren Teil.</translation>
    </message>
    <message>
        <source>Can&apos;t read %1: that takes too long. Save a smaller part.</source>
        <translation>%1 kann nicht gelesen werden: Das dauert zu lange. Speichern Sie einen kleineren Teil.</translation>
    </message>
    <message>
        <source>Couldn&apos;t read or save your chat library %1: %2.</source>
        <translation>Ihre Chat-Bibliothek %1 konnte nicht gelesen oder gespeichert werden: %2.</translation>
    </message>
    <message>
        <source>Can&apos;t import %1: it is too large (%2 MB, at most %3 MB).</source>
        <translation>%1 kann nicht importiert werden: Die Datei ist zu groß (%2 MB, höchstens %3 MB).</translation>
    </message>
    <message>
        <source>Can&apos;t import %1: the file is damaged or incomplete. Export or copy it again.</source>
        <translation>%1 kann nicht importiert werden: Die Datei ist beschädigt oder unvollständig. Exportieren oder kopieren Sie sie erneut.</translation>
    </message>
</context>
<context>
    <name>SamplingSettings</name>
    <message>
        <source>Temperature</source>
        <translation>Temperatur</translation>
    </message>
    <message>
        <source>0 always picks the likeliest word. Higher values are livelier and make more mistakes.</source>
        <translation>0 wählt immer das wahrscheinlichste Wort. Höhere Werte sind lebendiger und machen mehr Fehler.</translation>
    </message>
    <message>
        <source>0 (always the likeliest)</source>
        <translation>0 (immer das wahrscheinlichste)</translation>
    </message>
    <message>
        <source>Considers only the likeliest words whose probabilities add up to this share. 1 considers all.</source>
        <translation>Berücksichtigt nur die wahrscheinlichsten Wörter, die zusammen diesen Anteil erreichen. 1 berücksichtigt alle.</translation>
    </message>
    <message>
        <source>Considers at most this many words.</source>
        <translation>Berücksichtigt höchstens so viele Wörter.</translation>
    </message>
    <message>
        <source>all</source>
        <translation>alle</translation>
    </message>
    <message>
        <source>Ignores words less likely than this share of the likeliest one.</source>
        <translation>Ignoriert Wörter, die unwahrscheinlicher sind als dieser Anteil des wahrscheinlichsten.</translation>
    </message>
    <message>
        <source>off</source>
        <translation>aus</translation>
    </message>
    <message>
        <source>Repetition penalty</source>
        <translation>Wiederholungen vermeiden</translation>
    </message>
    <message>
        <source>Against loops (DRY)</source>
        <translation>Gegen Schleifen (DRY)</translation>
    </message>
    <message>
        <source>Above 1, recently used words become less likely. Small models need a little.</source>
        <translation>Über 1 werden kürzlich verwendete Wörter unwahrscheinlicher. Kleine Modelle brauchen ein wenig davon.</translation>
    </message>
    <message>
        <source>Makes it unlikely that an answer repeats a passage; start with %1.</source>
        <translation>Macht es unwahrscheinlich, dass eine Antwort eine Stelle wiederholt; beginnen Sie mit %1.</translation>
    </message>
</context>
<context>
    <name>SelectableArea</name>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>Select all</source>
        <translation>Alles auswählen</translation>
    </message>
    <message>
        <source>Copy link</source>
        <translation>Link kopieren</translation>
    </message>
</context>
<context>
    <name>Selector</name>
    <message>
        <source>selected</source>
        <translation>ausgewählt</translation>
    </message>
</context>
<context>
    <name>SettingsSheet</name>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
    <message>
        <source>Theme</source>
        <translation>Farbschema</translation>
    </message>
    <message>
        <source>System</source>
        <translation>System</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>Hell</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>Dunkel</translation>
    </message>
    <message>
        <source>Font</source>
        <translation>Schriftart</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>Systemanweisung</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Startwert (Seed)</translation>
    </message>
    <message>
        <source>Threads</source>
        <translation>Threads</translation>
    </message>
    <message>
        <source>Memory window</source>
        <translation>Gedächtnisfenster</translation>
    </message>
    <message>
        <source>How many of the latest tokens the model sees word for word. Fewer need less memory. Changing it loads the model again, and chats saved with another window are read again.</source>
        <translation>Wie viele der letzten Token das Modell wörtlich sieht. Weniger brauchen weniger Speicher. Eine Änderung lädt das Modell neu, und Chats, die mit einem anderen Fenster gespeichert wurden, werden neu gelesen.</translation>
    </message>
    <message>
        <source>The model&apos;s default is %1.</source>
        <translation>Das Modell empfiehlt %1.</translation>
    </message>
    <message>
        <source>As the model&apos;s file recommends, until you change it.</source>
        <translation>Wie die Modelldatei es empfiehlt, bis Sie es ändern.</translation>
    </message>
    <message>
        <source>Appearance</source>
        <translation>Darstellung</translation>
    </message>
    <message>
        <source>Text size</source>
        <translation>Textgröße</translation>
    </message>
    <message>
        <source>Relative to the system size.</source>
        <translation>Bezogen auf die Textgröße des Systems.</translation>
    </message>
    <message>
        <source>Language (after a restart)</source>
        <translation>Sprache (nach einem Neustart)</translation>
    </message>
    <message>
        <source>Show speed and token count below the chat</source>
        <translation>Geschwindigkeit und Tokenzahl unter dem Chat anzeigen</translation>
    </message>
    <message>
        <source>Given to the model at the start of every new chat. Leave empty to use the model&apos;s own.</source>
        <translation>Wird dem Modell zu Beginn jedes neuen Chats gegeben. Leer: die, die das Modell mitbringt.</translation>
    </message>
    <message>
        <source>For example: Answer in one sentence.</source>
        <translation>Zum Beispiel: Antworte in einem Satz.</translation>
    </message>
    <message>
        <source>Sampling</source>
        <translation>Sampling</translation>
    </message>
    <message>
        <source>Reset to defaults</source>
        <translation>Auf Standard zurücksetzen</translation>
    </message>
    <message>
        <source>Maximum answer length</source>
        <translation>Maximale Antwortlänge</translation>
    </message>
    <message>
        <source>In tokens. A token is about three quarters of a word.</source>
        <translation>In Token. Ein Token entspricht etwa drei Vierteln eines Wortes.</translation>
    </message>
    <message>
        <source>With the same seed, the same chat gets the same answer.</source>
        <translation>Mit demselben Startwert erhält derselbe Chat dieselbe Antwort.</translation>
    </message>
    <message>
        <source>random</source>
        <translation>zufällig</translation>
    </message>
    <message>
        <source>Performance</source>
        <translation>Leistung</translation>
    </message>
    <message>
        <source>CPU threads to use. Changing this reloads the model.</source>
        <translation>Anzahl der CPU-Threads. Eine Änderung lädt das Modell neu.</translation>
    </message>
    <message>
        <source>one per core</source>
        <translation>einer pro Kern</translation>
    </message>
    <message>
        <source>Disk space for instant return (MB)</source>
        <translation>Speicherplatz für sofortige Rückkehr (MB)</translation>
    </message>
    <message>
        <source>In use: %1 for %L2 saved states, %3 for text. When it is full, the oldest states are removed; going back there then takes a moment. Pinned places are kept.</source>
        <translation>Belegt: %1 für %L2 gespeicherte Zustände, %3 für Text. Ist er voll, werden die ältesten Zustände entfernt; die Rückkehr dorthin dauert dann etwas. Angeheftete Stellen bleiben.</translation>
    </message>
    <message>
        <source>Keyboard shortcuts…</source>
        <translation>Tastenkürzel …</translation>
    </message>
    <message>
        <source>Runnel Chat never uses the network. Chats, settings and models stay in your own folders.</source>
        <translation>Runnel Chat verwendet nie das Netzwerk. Chats, Einstellungen und Modelle bleiben in Ihren eigenen Ordnern.</translation>
    </message>
    <message>
        <source>Show</source>
        <translation>Anzeigen</translation>
    </message>
    <message>
        <source>Everyday</source>
        <translation>Alltag</translation>
    </message>
    <message>
        <source>Expert</source>
        <translation>Experte</translation>
    </message>
    <message>
        <source>Re-read earlier messages when a question refers to them</source>
        <translation>Frühere Nachrichten nachlesen, wenn eine Frage sich auf sie bezieht</translation>
    </message>
</context>
<context>
    <name>Sheet</name>
    <message>
        <source>Close</source>
        <translation>Schließen</translation>
    </message>
</context>
<context>
    <name>StatusLine</name>
    <message>
        <source>Loading the model…</source>
        <translation>Das Modell wird geladen …</translation>
    </message>
    <message>
        <source>Stopping…</source>
        <translation>Stoppt …</translation>
    </message>
    <message>
        <source>%L1 tokens/s on %2</source>
        <translation>%L1 Token/s auf %2</translation>
    </message>
    <message>
        <source>, not drawn ahead: %1</source>
        <translation>, nicht im Voraus gezogen: %1</translation>
    </message>
    <message>
        <source>Reading %L1 of %L2 tokens. Esc stops.</source>
        <translation>Liest %L1 von %L2 Token. Esc stoppt.</translation>
    </message>
    <message>
        <source>Reading %L1 of %L2 tokens, about %3 s left. Esc stops.</source>
        <translation>Liest %L1 von %L2 Token, noch etwa %3 s. Esc stoppt.</translation>
    </message>
    <message>
        <source>first word in %L1 ms</source>
        <translation>erstes Wort nach %L1 ms</translation>
    </message>
    <message>
        <source>model memory %1</source>
        <translation>Modellgedächtnis %1</translation>
    </message>
    <message>
        <source>%L1 tokens re-read: the model&apos;s template rewrites earlier turns</source>
        <translation>%L1 Token nachgelesen: Die Vorlage des Modells schreibt frühere Beiträge um</translation>
    </message>
    <message>
        <source>Small models make mistakes. Check important facts.</source>
        <translation>Kleine Modelle machen Fehler. Prüfen Sie wichtige Angaben.</translation>
    </message>
    <message>
        <source>ops (the only program there)</source>
        <translation>ops (das einzige Programm dort)</translation>
    </message>
</context>
<context>
    <name>TableBlock</name>
    <message>
        <source>Table with %1 columns</source>
        <translation>Tabelle mit %1 Spalten</translation>
    </message>
</context>
<context>
    <name>ThoughtBlock</name>
    <message>
        <source>Thinking…</source>
        <translation>Denkt nach …</translation>
    </message>
    <message>
        <source>Thought for less than a second</source>
        <translation>Weniger als eine Sekunde nachgedacht</translation>
    </message>
    <message numerus="yes">
        <source>Thought for %n seconds</source>
        <translation>
            <numerusform>%n Sekunde nachgedacht</numerusform>
            <numerusform>%n Sekunden nachgedacht</numerusform>
        </translation>
    </message>
    <message>
        <source>Thought for %1 min %2 s</source>
        <translation>%1 min %2 s nachgedacht</translation>
    </message>
    <message>
        <source>Hide the thought</source>
        <translation>Gedanken ausblenden</translation>
    </message>
    <message>
        <source>Show the thought</source>
        <translation>Gedanken anzeigen</translation>
    </message>
</context>
<context>
    <name>TimelinePane</name>
    <message>
        <source>Timeline</source>
        <translation>Zeitleiste</translation>
    </message>
    <message>
        <source>Hide the timeline</source>
        <translation>Zeitleiste ausblenden</translation>
    </message>
    <message>
        <source>Back</source>
        <translation>Zurück</translation>
    </message>
    <message>
        <source>Forward</source>
        <translation>Vorwärts</translation>
    </message>
    <message>
        <source>Every message will appear here. Click one to look at it; “Continue from here” goes back to it.</source>
        <translation>Hier erscheint jede Nachricht. Klicken zeigt sie; „Hier weitermachen“ kehrt zu ihr zurück.</translation>
    </message>
    <message>
        <source>What do you still know?</source>
        <translation>Was weiß das Modell noch?</translation>
    </message>
</context>
<context>
    <name>TimelineRow</name>
    <message>
        <source>You</source>
        <translation>Sie</translation>
    </message>
    <message>
        <source>Answer</source>
        <translation>Antwort</translation>
    </message>
    <message>
        <source>current place</source>
        <translation>aktuelle Stelle</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>Angeheftet</translation>
    </message>
    <message>
        <source>branch %1 of %2</source>
        <translation>Zweig %1 von %2</translation>
    </message>
    <message numerus="yes">
        <source>%n more messages folded</source>
        <translation>
            <numerusform>%n weitere Nachricht eingeklappt</numerusform>
            <numerusform>%n weitere Nachrichten eingeklappt</numerusform>
        </translation>
    </message>
    <message>
        <source>%L1 s</source>
        <translation>%L1 s</translation>
    </message>
    <message>
        <source>%L1 tokens</source>
        <translation>%L1 Token</translation>
    </message>
    <message>
        <source>Unfold this branch</source>
        <translation>Diesen Zweig ausklappen</translation>
    </message>
    <message>
        <source>Fold this branch</source>
        <translation>Diesen Zweig einklappen</translation>
    </message>
    <message>
        <source>+%L1</source>
        <translation>+%L1</translation>
    </message>
    <message>
        <source>Document</source>
        <translation>Dokument</translation>
    </message>
</context>
<context>
    <name>Tour</name>
    <message>
        <source>Answer in one short sentence.</source>
        <translation>Antworte in einem kurzen Satz.</translation>
    </message>
    <message>
        <source>Suggest a name for a small boat.</source>
        <translation>Schlage einen Namen für ein kleines Boot vor.</translation>
    </message>
    <message>
        <source>A short tour</source>
        <translation>Kurze Tour</translation>
    </message>
    <message>
        <source>Which colour suits it?</source>
        <translation>Welche Farbe passt zu ihm?</translation>
    </message>
    <message>
        <source>What should I take along on it?</source>
        <translation>Was soll ich darauf mitnehmen?</translation>
    </message>
</context>
<context>
    <name>TourBar</name>
    <message>
        <source>That was all: nothing you write is ever overwritten.</source>
        <translation>Das war alles: Nichts, was Sie schreiben, wird je überschrieben.</translation>
    </message>
    <message>
        <source>Every message is a place.</source>
        <translation>Jede Nachricht ist eine Stelle.</translation>
    </message>
    <message>
        <source>Go back here and ask something else.</source>
        <translation>Gehen Sie hierher zurück und fragen Sie etwas anderes.</translation>
    </message>
    <message>
        <source>Both answers are kept, side by side.</source>
        <translation>Beide Antworten bleiben, nebeneinander.</translation>
    </message>
    <message>
        <source>The model is answering…</source>
        <translation>Das Modell antwortet …</translation>
    </message>
    <message>
        <source>Press %1 to send this question, or write one of your own.</source>
        <translation>Senden Sie diese Frage mit der Taste %1, oder schreiben Sie eine eigene.</translation>
    </message>
    <message>
        <source>Now ask a second question.</source>
        <translation>Stellen Sie nun eine zweite Frage.</translation>
    </message>
    <message>
        <source>Right-click the marked place in the timeline (or hold it) and choose “Continue from here”.</source>
        <translation>Klicken Sie die markierte Stelle in der Zeitleiste mit der rechten Maustaste an (oder halten Sie sie gedrückt) und wählen Sie „Hier weitermachen“.</translation>
    </message>
    <message>
        <source>You are back at the first answer. Ask something else: it becomes a branch.</source>
        <translation>Sie sind zurück bei der ersten Antwort. Fragen Sie etwas anderes: Es wird ein Zweig.</translation>
    </message>
    <message>
        <source>Click the marked place in the timeline, then “Continue from here”. %1 goes back, too.</source>
        <translation>Klicken Sie die markierte Stelle in der Zeitleiste an, dann „Hier weitermachen“. Auch %1 führt zurück.</translation>
    </message>
    <message>
        <source>Is this chat to be kept?</source>
        <translation>Soll dieser Chat bleiben?</translation>
    </message>
    <message>
        <source>Step %1 of %2</source>
        <translation>Schritt %1 von %2</translation>
    </message>
    <message>
        <source>Skip</source>
        <translation>Überspringen</translation>
    </message>
    <message>
        <source>Show the timeline</source>
        <translation>Zeitleiste einblenden</translation>
    </message>
    <message>
        <source>Delete this chat</source>
        <translation>Diesen Chat löschen</translation>
    </message>
    <message>
        <source>Keep it</source>
        <translation>Behalten</translation>
    </message>
</context>
<context>
    <name>TrashSheet</name>
    <message>
        <source>Recently deleted</source>
        <translation>Zuletzt gelöscht</translation>
    </message>
    <message>
        <source>Deleted chats are removed after 30 days.</source>
        <translation>Gelöschte Chats werden nach 30 Tagen entfernt.</translation>
    </message>
    <message>
        <source>Nothing was deleted.</source>
        <translation>Nichts wurde gelöscht.</translation>
    </message>
    <message>
        <source>Chat</source>
        <translation>Chat</translation>
    </message>
    <message>
        <source>From “%1”</source>
        <translation>Aus „%1“</translation>
    </message>
    <message numerus="yes">
        <source>%n messages</source>
        <translation>
            <numerusform>%n Nachricht</numerusform>
            <numerusform>%n Nachrichten</numerusform>
        </translation>
    </message>
    <message>
        <source>Restore</source>
        <translation>Wiederherstellen</translation>
    </message>
    <message>
        <source>Delete forever</source>
        <translation>Endgültig löschen</translation>
    </message>
</context>
<context>
    <name>TrySheet</name>
    <message>
        <source>Three answers</source>
        <translation>Drei Antworten</translation>
    </message>
    <message>
        <source>Answering…</source>
        <translation>Antwortet …</translation>
    </message>
    <message>
        <source>Words that only one answer has are marked. Nothing is stored until you keep one.</source>
        <translation>Wörter, die nur eine Antwort enthält, sind markiert. Gespeichert wird erst, wenn Sie eine behalten.</translation>
    </message>
    <message>
        <source>Answer %1</source>
        <translation>Antwort %1</translation>
    </message>
    <message>
        <source>Keep this one</source>
        <translation>Diese behalten</translation>
    </message>
</context>
</TS>
