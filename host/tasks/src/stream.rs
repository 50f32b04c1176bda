//! A blocking reader as a stream for the runtime.

use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

const CHUNK: usize = 256 << 10;

/// Reads on a thread of its own, a few chunks ahead.
pub fn from_blocking(mut reader: impl Read + Send + 'static) -> Chunks {
    let (send, receive) = mpsc::channel(2);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut chunk = vec![0; CHUNK];
            let read = reader.read(&mut chunk);
            let over = !matches!(read, Ok(count) if count > 0);
            let item = read.map(|count| {
                chunk.truncate(count);
                chunk
            });
            if send.blocking_send(item).is_err() || over {
                return;
            }
        }
    });
    Chunks {
        receive,
        current: Vec::new(),
        position: 0,
    }
}

/// See [`from_blocking`].
pub struct Chunks {
    receive: mpsc::Receiver<std::io::Result<Vec<u8>>>,
    current: Vec<u8>,
    position: usize,
}

impl AsyncRead for Chunks {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.position == self.current.len() {
            match self.receive.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(Some(Ok(chunk))) => {
                    self.current = chunk;
                    self.position = 0;
                }
            }
        }
        let count = buf.remaining().min(self.current.len() - self.position);
        let end = self.position + count;
        buf.put_slice(&self.current[self.position..end]);
        self.position = end;
        Poll::Ready(Ok(()))
    }
}
