<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de">
<context>
    <name>CodeBlock</name>
    <message>
        <source>Code %1</source>
        <translation>Code %1</translation>
    </message>
    <message>
        <source>code</source>
        <translation>Code</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>Copy code</source>
        <translation>Code kopieren</translation>
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
        <source>Go on with this one</source>
        <translation>Mit dieser weiter</translation>
    </message>
</context>
<context>
    <name>Composer</name>
    <message>
        <source>Another chat is being answered…</source>
        <translation>Ein anderer Chat wird gerade beantwortet …</translation>
    </message>
    <message>
        <source>Message</source>
        <translation>Nachricht</translation>
    </message>
    <message>
        <source>Stop</source>
        <translation>Anhalten</translation>
    </message>
    <message>
        <source>Send</source>
        <translation>Senden</translation>
    </message>
    <message>
        <source>Stop (Esc)</source>
        <translation>Anhalten (Esc)</translation>
    </message>
    <message>
        <source>Send (Enter)</source>
        <translation>Senden (Eingabe)</translation>
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
        <translation>Neuer Chat</translation>
    </message>
    <message>
        <source>Loading… %1 %</source>
        <translation>Lädt … %1 %</translation>
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
        <source>Timeline</source>
        <translation>Zeitleiste</translation>
    </message>
    <message>
        <source>Messages</source>
        <translation>Nachrichten</translation>
    </message>
    <message>
        <source>To the end</source>
        <translation>Zum Ende</translation>
    </message>
    <message>
        <source>You went back. What you say next starts a new branch.</source>
        <translation>Sie sind zurückgegangen. Was Sie nun sagen, beginnt einen neuen Zweig.</translation>
    </message>
    <message>
        <source>Answer</source>
        <translation>Antworten</translation>
    </message>
    <message>
        <source>Return to the end</source>
        <translation>Zurück ans Ende</translation>
    </message>
</context>
<context>
    <name>EmptyPage</name>
    <message>
        <source>What shall we talk about?</source>
        <translation>Worüber sprechen wir?</translation>
    </message>
    <message>
        <source>Choose a model file first.</source>
        <translation>Wählen Sie zuerst eine Modelldatei.</translation>
    </message>
    <message>
        <source>Everything stays on this device. Any message is a place you can go back to; the model keeps a summary of fixed size, so early details may fade.</source>
        <translation>Alles bleibt auf diesem Gerät. Zu jeder Nachricht können Sie zurückgehen; das Modell behält eine Zusammenfassung fester Größe, frühe Einzelheiten können also verblassen.</translation>
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
        <source>Explain what a queue is, with code.</source>
        <translation>Erkläre mit Code, was eine Warteschlange ist.</translation>
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
        <source>All branches; can be imported again.</source>
        <translation>Alle Zweige; kann wieder importiert werden.</translation>
    </message>
    <message>
        <source>The branch in view, for reading.</source>
        <translation>Der sichtbare Zweig, zum Lesen.</translation>
    </message>
    <message>
        <source>File</source>
        <translation>Datei</translation>
    </message>
    <message>
        <source>This file exists and will be replaced.</source>
        <translation>Diese Datei gibt es; sie wird ersetzt.</translation>
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
</context>
<context>
    <name>FilePicker</name>
    <message>
        <source>No file of this kind is here.</source>
        <translation>Hier ist keine Datei dieser Art.</translation>
    </message>
    <message>
        <source>This file is of another kind.</source>
        <translation>Diese Datei ist von anderer Art.</translation>
    </message>
    <message>
        <source>Nothing that can be opened is at this path.</source>
        <translation>Unter diesem Pfad lässt sich nichts öffnen.</translation>
    </message>
    <message>
        <source>Folder above</source>
        <translation>Ordner darüber</translation>
    </message>
    <message>
        <source>Path of the folder</source>
        <translation>Pfad des Ordners</translation>
    </message>
    <message>
        <source>Path of the folder or file</source>
        <translation>Pfad des Ordners oder der Datei</translation>
    </message>
    <message>
        <source>Folders</source>
        <translation>Ordner</translation>
    </message>
    <message>
        <source>Folders and files</source>
        <translation>Ordner und Dateien</translation>
    </message>
    <message>
        <source>No folder is in here.</source>
        <translation>Hier ist kein Ordner.</translation>
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
        <translation>Diesen Ordner nehmen</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>Öffnen</translation>
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
    <name>KeysSheet</name>
    <message>
        <source>Keyboard</source>
        <translation>Tastatur</translation>
    </message>
    <message>
        <source>Send</source>
        <translation>Senden</translation>
    </message>
    <message>
        <source>New line</source>
        <translation>Neue Zeile</translation>
    </message>
    <message>
        <source>Stop the answer, close a page</source>
        <translation>Antwort anhalten, Seite schließen</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>Neuer Chat</translation>
    </message>
    <message>
        <source>Write</source>
        <translation>Schreiben</translation>
    </message>
    <message>
        <source>Search all messages</source>
        <translation>Alle Nachrichten durchsuchen</translation>
    </message>
    <message>
        <source>Answer again</source>
        <translation>Nochmals antworten</translation>
    </message>
    <message>
        <source>Undo a deletion, while its notice shows</source>
        <translation>Löschen rückgängig machen, solange der Hinweis steht</translation>
    </message>
    <message>
        <source>Show or hide chats, timeline</source>
        <translation>Chats, Zeitleiste ein- oder ausblenden</translation>
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
        <source>Delete</source>
        <translation>Entf</translation>
    </message>
    <message>
        <source>Rename or delete the chat chosen in the list</source>
        <translation>Den in der Liste gewählten Chat umbenennen oder löschen</translation>
    </message>
    <message>
        <source>Scroll</source>
        <translation>Blättern</translation>
    </message>
    <message>
        <source>Larger, smaller, usual text</source>
        <translation>Text größer, kleiner, wie üblich</translation>
    </message>
    <message>
        <source>This list</source>
        <translation>Diese Liste</translation>
    </message>
    <message>
        <source>Say the last message differently</source>
        <translation>Die letzte Nachricht anders sagen</translation>
    </message>
    <message>
        <source>Compare the last versions</source>
        <translation>Die letzten Fassungen vergleichen</translation>
    </message>
</context>
<context>
    <name>LibraryPane</name>
    <message>
        <source>New chat</source>
        <translation>Neuer Chat</translation>
    </message>
    <message>
        <source>Hide the list</source>
        <translation>Liste ausblenden</translation>
    </message>
    <message>
        <source>Search all messages</source>
        <translation>Alle Nachrichten durchsuchen</translation>
    </message>
    <message>
        <source>Clear the search</source>
        <translation>Suche leeren</translation>
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
        <source>Last seven days</source>
        <translation>Letzte sieben Tage</translation>
    </message>
    <message>
        <source>Earlier</source>
        <translation>Früher</translation>
    </message>
    <message>
        <source>Names</source>
        <translation>Namen</translation>
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
        <source>Nothing found.</source>
        <translation>Nichts gefunden.</translation>
    </message>
    <message>
        <source>Your chats will be here.</source>
        <translation>Hier werden Ihre Chats stehen.</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>Modelle</translation>
    </message>
    <message>
        <source>Import a chat</source>
        <translation>Chat importieren</translation>
    </message>
    <message>
        <source>Export this chat</source>
        <translation>Diesen Chat exportieren</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
</context>
<context>
    <name>LibraryRow</name>
    <message>
        <source>Name of the chat</source>
        <translation>Name des Chats</translation>
    </message>
    <message>
        <source>More about %1</source>
        <translation>Mehr zu %1</translation>
    </message>
    <message>
        <source>Unpin</source>
        <translation>Lösen</translation>
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
        <source>Export…</source>
        <translation>Exportieren …</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Löschen</translation>
    </message>
</context>
<context>
    <name>LinkDialog</name>
    <message>
        <source>Open this link in the browser? Models make up addresses.</source>
        <translation>Diesen Link im Browser öffnen? Modelle erfinden Adressen.</translation>
    </message>
    <message>
        <source>This is no link to the web; it is not opened.</source>
        <translation>Das ist kein Link ins Web; er wird nicht geöffnet.</translation>
    </message>
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
</context>
<context>
    <name>Main</name>
    <message>
        <source>Open a model</source>
        <translation>Modell öffnen</translation>
    </message>
    <message>
        <source>Import a chat</source>
        <translation>Chat importieren</translation>
    </message>
    <message>
        <source>No folder and no model (.gguf) is here.</source>
        <translation>Hier ist weder ein Ordner noch ein Modell (.gguf).</translation>
    </message>
    <message>
        <source>No folder and no exported chat (.json) is here.</source>
        <translation>Hier ist weder ein Ordner noch ein exportierter Chat (.json).</translation>
    </message>
    <message>
        <source>Export into a folder</source>
        <translation>In einen Ordner exportieren</translation>
    </message>
</context>
<context>
    <name>MemoryMeter</name>
    <message>
        <source>This chat is %L1 tokens long. What the model keeps of it takes %2, whatever its length.</source>
        <translation>Dieser Chat ist %L1 Token lang. Was das Modell davon behält, braucht %2, gleich wie lang er wird.</translation>
    </message>
    <message>
        <source>Length of this chat</source>
        <translation>Länge dieses Chats</translation>
    </message>
    <message>
        <source>%L1 tokens</source>
        <translation>%L1 Token</translation>
    </message>
    <message>
        <source>Memory of it</source>
        <translation>Gedächtnis davon</translation>
    </message>
    <message>
        <source>%1, always</source>
        <translation>%1, immer</translation>
    </message>
    <message>
        <source>Details from long ago fade.</source>
        <translation>Lange zurückliegende Einzelheiten verblassen.</translation>
    </message>
    <message>
        <source>about %L1 tokens</source>
        <translation>etwa %L1 Token</translation>
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
        <source>Say it differently</source>
        <translation>Anders sagen</translation>
    </message>
    <message>
        <source>Answer again</source>
        <translation>Nochmals antworten</translation>
    </message>
    <message>
        <source>Go back to here</source>
        <translation>Hierher zurückgehen</translation>
    </message>
    <message>
        <source>More</source>
        <translation>Mehr</translation>
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
        <source>The answer is being written</source>
        <translation>Die Antwort wird geschrieben</translation>
    </message>
    <message>
        <source>Cut short</source>
        <translation>Abgebrochen</translation>
    </message>
</context>
<context>
    <name>MessageEditor</name>
    <message>
        <source>Your message</source>
        <translation>Ihre Nachricht</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Send as a new branch</source>
        <translation>Als neuen Zweig senden</translation>
    </message>
</context>
<context>
    <name>MessageMenu</name>
    <message>
        <source>Branch: go on from here</source>
        <translation>Abzweigen: von hier aus weiter</translation>
    </message>
    <message>
        <source>Unpin</source>
        <translation>Lösen</translation>
    </message>
    <message>
        <source>Pin: keep its snapshot</source>
        <translation>Anheften: Schnappschuss behalten</translation>
    </message>
    <message>
        <source>Name this place…</source>
        <translation>Diesen Ort benennen …</translation>
    </message>
    <message>
        <source>Compare versions</source>
        <translation>Fassungen vergleichen</translation>
    </message>
    <message>
        <source>Delete from here on</source>
        <translation>Ab hier löschen</translation>
    </message>
</context>
<context>
    <name>ModelRow</name>
    <message>
        <source>More than the %1 that are free now.</source>
        <translation>Mehr als die %1, die jetzt frei sind.</translation>
    </message>
    <message>
        <source>Cannot be used: %1</source>
        <translation>Nicht benutzbar: %1</translation>
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
        <translation>In Gebrauch</translation>
    </message>
</context>
<context>
    <name>ModelSheet</name>
    <message>
        <source>Models</source>
        <translation>Modelle</translation>
    </message>
    <message>
        <source>Runs on</source>
        <translation>Läuft auf</translation>
    </message>
    <message>
        <source>Device</source>
        <translation>Gerät</translation>
    </message>
    <message>
        <source>Model files (.gguf) can also be dropped onto the window.</source>
        <translation>Modelldateien (.gguf) können auch auf das Fenster gezogen werden.</translation>
    </message>
    <message>
        <source>Open a file…</source>
        <translation>Datei öffnen …</translation>
    </message>
</context>
<context>
    <name>NameDialog</name>
    <message>
        <source>Name of this place</source>
        <translation>Name dieses Ortes</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Save</source>
        <translation>Speichern</translation>
    </message>
</context>
<context>
    <name>NoticeBar</name>
    <message>
        <source>Less</source>
        <translation>Weniger</translation>
    </message>
    <message>
        <source>Details</source>
        <translation>Einzelheiten</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>Rückgängig</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>Ausblenden</translation>
    </message>
</context>
<context>
    <name>Runnel</name>
    <message>
        <source>Something is missing. Choose a model file, or look whether the file was moved.</source>
        <translation>Etwas fehlt. Wählen Sie eine Modelldatei oder sehen Sie nach, ob die Datei verschoben wurde.</translation>
    </message>
    <message>
        <source>The disk refused to read or write. Look for free space and permissions.</source>
        <translation>Lesen oder Schreiben wurde verweigert. Prüfen Sie freien Platz und Rechte.</translation>
    </message>
    <message>
        <source>This file is damaged or not what its name says. Fetch it again.</source>
        <translation>Diese Datei ist beschädigt oder nicht, was ihr Name sagt. Besorgen Sie sie neu.</translation>
    </message>
    <message>
        <source>This file is fine, but this version cannot run it. Choose another model.</source>
        <translation>Diese Datei ist in Ordnung, aber diese Version kann sie nicht ausführen. Wählen Sie ein anderes Modell.</translation>
    </message>
    <message>
        <source>This belongs to another model or version.</source>
        <translation>Das gehört zu einem anderen Modell oder einer anderen Version.</translation>
    </message>
    <message>
        <source>Not enough memory. Close other programs or choose a smaller model.</source>
        <translation>Zu wenig Speicher. Schließen Sie andere Programme oder wählen Sie ein kleineres Modell.</translation>
    </message>
    <message>
        <source>The device failed. Choose another device, or try again.</source>
        <translation>Das Gerät hat versagt. Wählen Sie ein anderes oder versuchen Sie es noch einmal.</translation>
    </message>
    <message>
        <source>Stopped.</source>
        <translation>Angehalten.</translation>
    </message>
    <message>
        <source>A setting is outside its range. Reset the sampling settings.</source>
        <translation>Eine Einstellung liegt außerhalb ihres Bereichs. Setzen Sie die Wortwahl zurück.</translation>
    </message>
    <message>
        <source>Something went wrong inside. Please report the details.</source>
        <translation>Im Inneren ging etwas schief. Bitte melden Sie die Einzelheiten.</translation>
    </message>
    <message>
        <source>Chat deleted.</source>
        <translation>Chat gelöscht.</translation>
    </message>
    <message>
        <source>Deleted from there on.</source>
        <translation>Ab dort gelöscht.</translation>
    </message>
    <message>
        <source>Exported to %1</source>
        <translation>Exportiert nach %1</translation>
    </message>
    <message>
        <source>Imported.</source>
        <translation>Importiert.</translation>
    </message>
    <message>
        <source>No model was found. Choose a GGUF file under Models.</source>
        <translation>Kein Modell gefunden. Wählen Sie unter Modelle eine GGUF-Datei.</translation>
    </message>
    <message>
        <source>Copied.</source>
        <translation>Kopiert.</translation>
    </message>
    <message>
        <source>Drop a model (.gguf) or an exported chat (.json) here.</source>
        <translation>Legen Sie hier ein Modell (.gguf) oder einen exportierten Chat (.json) ab.</translation>
    </message>
    <message>
        <source>Best available</source>
        <translation>Das beste vorhandene</translation>
    </message>
    <message>
        <source>%1 parameters · %2 · %3 layers</source>
        <translation>%1 Parameter · %2 · %3 Schichten</translation>
    </message>
    <message>
        <source>Needs %1: %2 of weights and %3 for a conversation of any length</source>
        <translation>Braucht %1: %2 für Gewichte und %3 für ein Gespräch jeder Länge</translation>
    </message>
    <message>
        <source>The device has too little memory for this model, so it runs on the CPU. Choose a smaller model, or another device under Models.</source>
        <translation>Das Gerät hat zu wenig Speicher für dieses Modell, deshalb läuft es auf der CPU. Wählen Sie ein kleineres Modell oder unter Modelle ein anderes Gerät.</translation>
    </message>
    <message>
        <source>The device cannot be used, so the model runs on the CPU. Look at its driver, or choose another device under Models.</source>
        <translation>Das Gerät lässt sich nicht benutzen, deshalb läuft das Modell auf der CPU. Sehen Sie nach seinem Treiber oder wählen Sie unter Modelle ein anderes Gerät.</translation>
    </message>
</context>
<context>
    <name>SettingsSheet</name>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
    <message>
        <source>Look</source>
        <translation>Aussehen</translation>
    </message>
    <message>
        <source>Theme</source>
        <translation>Farben</translation>
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
        <source>Size of text</source>
        <translation>Textgröße</translation>
    </message>
    <message>
        <source>Of the size the system uses.</source>
        <translation>Bezogen auf die Größe, die das System benutzt.</translation>
    </message>
    <message>
        <source>Font</source>
        <translation>Schrift</translation>
    </message>
    <message>
        <source>Language (from the next start)</source>
        <translation>Sprache (ab dem nächsten Start)</translation>
    </message>
    <message>
        <source>Show speed and length under the chat</source>
        <translation>Tempo und Länge unter dem Chat zeigen</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>Systemanweisung</translation>
    </message>
    <message>
        <source>Read at the beginning of every new chat. Empty: the one the model comes with.</source>
        <translation>Wird am Anfang jedes neuen Chats gelesen. Leer: der, den das Modell mitbringt.</translation>
    </message>
    <message>
        <source>For example: You answer in one sentence.</source>
        <translation>Zum Beispiel: Du antwortest in einem Satz.</translation>
    </message>
    <message>
        <source>How words are chosen</source>
        <translation>Wie Wörter gewählt werden</translation>
    </message>
    <message>
        <source>Reset</source>
        <translation>Zurücksetzen</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>Temperatur</translation>
    </message>
    <message>
        <source>0 always takes the likeliest word. Higher is livelier and errs more.</source>
        <translation>0 nimmt immer das wahrscheinlichste Wort. Höher ist lebendiger und irrt öfter.</translation>
    </message>
    <message>
        <source>none</source>
        <translation>keine</translation>
    </message>
    <message>
        <source>Chooses among the likeliest words that together have this share. 1 chooses among all.</source>
        <translation>Wählt unter den wahrscheinlichsten Wörtern, die zusammen diesen Anteil haben. 1 wählt unter allen.</translation>
    </message>
    <message>
        <source>Chooses among so many words at most.</source>
        <translation>Wählt unter höchstens so vielen Wörtern.</translation>
    </message>
    <message>
        <source>all</source>
        <translation>alle</translation>
    </message>
    <message>
        <source>Leaves out words less likely than this share of the likeliest.</source>
        <translation>Lässt Wörter weg, die unwahrscheinlicher sind als dieser Anteil des wahrscheinlichsten.</translation>
    </message>
    <message>
        <source>off</source>
        <translation>aus</translation>
    </message>
    <message>
        <source>Against repetition</source>
        <translation>Gegen Wiederholung</translation>
    </message>
    <message>
        <source>Longest answer</source>
        <translation>Längste Antwort</translation>
    </message>
    <message>
        <source>In tokens; a token is about three quarters of a word.</source>
        <translation>In Token; ein Token ist etwa drei Viertel eines Wortes.</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Startwert</translation>
    </message>
    <message>
        <source>The same seed gives the same answer to the same chat.</source>
        <translation>Derselbe Startwert gibt demselben Chat dieselbe Antwort.</translation>
    </message>
    <message>
        <source>different each time</source>
        <translation>jedes Mal anders</translation>
    </message>
    <message>
        <source>Machine</source>
        <translation>Rechner</translation>
    </message>
    <message>
        <source>Threads</source>
        <translation>Rechenfäden</translation>
    </message>
    <message>
        <source>How many processor cores compute. Changing it loads the model again.</source>
        <translation>Wie viele Prozessorkerne rechnen. Eine Änderung lädt das Modell neu.</translation>
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
        <source>one a core</source>
        <translation>einer je Kern</translation>
    </message>
    <message>
        <source>Disk for going back at once (MB)</source>
        <translation>Speicherplatz für sofortiges Zurückgehen (MB)</translation>
    </message>
    <message>
        <source>Now %1 in %L2 snapshots, and %3 of text. Beyond it the oldest are dropped: going back there then takes some reading. Pinned places are kept.</source>
        <translation>Jetzt %1 in %L2 Schnappschüssen und %3 Text. Darüber hinaus fallen die ältesten weg: dorthin zurückzugehen braucht dann etwas Lesezeit. Angeheftete Orte bleiben.</translation>
    </message>
    <message>
        <source>Keyboard…</source>
        <translation>Tastatur …</translation>
    </message>
    <message>
        <source>Runnel Chat uses no network. Chats, settings and models stay in your own folders.</source>
        <translation>Runnel Chat benutzt kein Netz. Chats, Einstellungen und Modelle bleiben in Ihren eigenen Ordnern.</translation>
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
        <source>Above 1, words used lately become less likely.</source>
        <translation>Über 1 werden zuletzt benutzte Wörter unwahrscheinlicher.</translation>
    </message>
    <message>
        <source>Against loops (DRY)</source>
        <translation>Gegen Schleifen (DRY)</translation>
    </message>
    <message>
        <source>Makes it unlikely that an answer says the same passage again. 0.8 is usual.</source>
        <translation>Macht es unwahrscheinlich, dass eine Antwort dieselbe Stelle noch einmal sagt. Üblich ist 0,8.</translation>
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
        <source>Reading %L1 tokens… Esc stops</source>
        <translation>Liest %L1 Token … Esc hält an</translation>
    </message>
    <message>
        <source>Loading the model…</source>
        <translation>Das Modell wird geladen …</translation>
    </message>
    <message>
        <source>Stopping…</source>
        <translation>Hält an …</translation>
    </message>
    <message>
        <source>first word after %L1 ms</source>
        <translation>erstes Wort nach %L1 ms</translation>
    </message>
    <message>
        <source>%L1 tokens in this chat</source>
        <translation>%L1 Token in diesem Chat</translation>
    </message>
    <message>
        <source>memory %1</source>
        <translation>Gedächtnis %1</translation>
    </message>
    <message>
        <source>A small model makes mistakes. Check what matters.</source>
        <translation>Ein kleines Modell macht Fehler. Prüfen Sie, was wichtig ist.</translation>
    </message>
    <message>
        <source>%L1 tokens/s on %2</source>
        <translation>%L1 Token/s auf %2</translation>
    </message>
    <message>
        <source>, not drawn ahead: %1</source>
        <translation>, nicht im Voraus gezogen: %1</translation>
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
        <source>Every message will be a place here that you can go back to.</source>
        <translation>Jede Nachricht wird hier ein Ort, zu dem Sie zurückgehen können.</translation>
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
        <source>here</source>
        <translation>hier</translation>
    </message>
</context>
</TS>
