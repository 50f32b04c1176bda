//! How the loop is spoken to from outside.

use tokio::sync::mpsc;

use crate::key::Key;

/// What the loop is told from outside.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Wake(Key),
    /// Something happened to the source that its revision does not show.
    Source(Key),
    Stop,
}

/// Speaks to a running loop. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) messages: mpsc::UnboundedSender<Message>,
}

impl Handle {
    /// Looks at this key soon. Asking twice is asking once.
    pub fn wake(&self, key: Key) {
        // A loop that has ended needs no waking.
        let _ = self.messages.send(Message::Wake(key));
    }

    /// Asks this key's source again.
    pub fn source_changed(&self, key: Key) {
        let _ = self.messages.send(Message::Source(key));
    }

    /// Ends the loop after the step that is under way. Runs go on with their agents.
    pub fn stop(&self) {
        let _ = self.messages.send(Message::Stop);
    }
}
