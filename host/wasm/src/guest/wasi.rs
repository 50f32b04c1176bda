//! What a guest's standard library expects of its surroundings, and gets nothing from: no environment, no files, no
//! network, a clock that stands still at the request's time, numbers that are the same for the same request.

use wasmtime::component::Resource;

use super::bindings::wasi::wasi::{cli, clocks, io, random};
use super::handles::{Input, IoError, Output, Pollable, Terminal};
use super::round::Round;
use crate::error::PluginError;

/// Most random bytes in one call.
const RANDOM_BYTES: u64 = 64 << 10;

/// What a stream accepts in one write.
const WRITE_BYTES: u64 = 64 << 10;

type StreamResult<T> = wasmtime::Result<Result<T, io::streams::StreamError>>;

impl io::error::Host for Round {}
impl io::error::HostError for Round {
    fn to_debug_string(&mut self, _: Resource<IoError>) -> wasmtime::Result<String> {
        Ok("input/output error".into())
    }

    fn drop(&mut self, error: Resource<IoError>) -> wasmtime::Result<()> {
        self.table.delete(error)?;
        Ok(())
    }
}

impl io::poll::Host for Round {
    fn poll(&mut self, pollables: Vec<Resource<Pollable>>) -> wasmtime::Result<Vec<u32>> {
        Ok((0..u32::try_from(pollables.len())?).collect())
    }
}

impl io::poll::HostPollable for Round {
    fn ready(&mut self, _: Resource<Pollable>) -> wasmtime::Result<bool> {
        Ok(true)
    }

    fn block(&mut self, _: Resource<Pollable>) -> wasmtime::Result<()> {
        Ok(())
    }

    fn drop(&mut self, pollable: Resource<Pollable>) -> wasmtime::Result<()> {
        self.table.delete(pollable)?;
        Ok(())
    }
}

impl io::streams::Host for Round {}

impl io::streams::HostInputStream for Round {
    fn read(&mut self, _: Resource<Input>, _: u64) -> StreamResult<Vec<u8>> {
        Ok(Err(io::streams::StreamError::Closed))
    }

    fn blocking_read(&mut self, _: Resource<Input>, _: u64) -> StreamResult<Vec<u8>> {
        Ok(Err(io::streams::StreamError::Closed))
    }

    fn skip(&mut self, _: Resource<Input>, _: u64) -> StreamResult<u64> {
        Ok(Err(io::streams::StreamError::Closed))
    }

    fn blocking_skip(&mut self, _: Resource<Input>, _: u64) -> StreamResult<u64> {
        Ok(Err(io::streams::StreamError::Closed))
    }

    fn subscribe(&mut self, _: Resource<Input>) -> wasmtime::Result<Resource<Pollable>> {
        Ok(self.table.push(Pollable)?)
    }

    fn drop(&mut self, stream: Resource<Input>) -> wasmtime::Result<()> {
        self.table.delete(stream)?;
        Ok(())
    }
}

impl io::streams::HostOutputStream for Round {
    fn check_write(&mut self, _: Resource<Output>) -> StreamResult<u64> {
        Ok(Ok(WRITE_BYTES))
    }

    fn write(&mut self, _: Resource<Output>, bytes: Vec<u8>) -> StreamResult<()> {
        Round::write(self, &bytes)?;
        Ok(Ok(()))
    }

    fn blocking_write_and_flush(
        &mut self,
        _: Resource<Output>,
        bytes: Vec<u8>,
    ) -> StreamResult<()> {
        Round::write(self, &bytes)?;
        Ok(Ok(()))
    }

    fn flush(&mut self, _: Resource<Output>) -> StreamResult<()> {
        Ok(Ok(()))
    }

    fn blocking_flush(&mut self, _: Resource<Output>) -> StreamResult<()> {
        Ok(Ok(()))
    }

    fn subscribe(&mut self, _: Resource<Output>) -> wasmtime::Result<Resource<Pollable>> {
        Ok(self.table.push(Pollable)?)
    }

    // Zeroes are of no use to anyone who reads the output.
    fn write_zeroes(&mut self, _: Resource<Output>, _: u64) -> StreamResult<()> {
        Ok(Ok(()))
    }

    fn blocking_write_zeroes_and_flush(&mut self, _: Resource<Output>, _: u64) -> StreamResult<()> {
        Ok(Ok(()))
    }

    fn splice(&mut self, _: Resource<Output>, _: Resource<Input>, _: u64) -> StreamResult<u64> {
        Ok(Err(io::streams::StreamError::Closed))
    }

    fn blocking_splice(
        &mut self,
        _: Resource<Output>,
        _: Resource<Input>,
        _: u64,
    ) -> StreamResult<u64> {
        Ok(Err(io::streams::StreamError::Closed))
    }

    fn drop(&mut self, stream: Resource<Output>) -> wasmtime::Result<()> {
        self.table.delete(stream)?;
        Ok(())
    }
}

impl cli::environment::Host for Round {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}

impl cli::exit::Host for Round {
    fn exit(&mut self, _: Result<(), ()>) -> wasmtime::Result<()> {
        self.trip(PluginError::Exit)
    }

    fn exit_with_code(&mut self, _: u8) -> wasmtime::Result<()> {
        self.trip(PluginError::Exit)
    }
}

impl cli::stdin::Host for Round {
    fn get_stdin(&mut self) -> wasmtime::Result<Resource<Input>> {
        Ok(self.table.push(Input)?)
    }
}

impl cli::stdout::Host for Round {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<Output>> {
        Ok(self.table.push(Output)?)
    }
}

impl cli::stderr::Host for Round {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<Output>> {
        Ok(self.table.push(Output)?)
    }
}

impl cli::terminal_input::Host for Round {}
impl cli::terminal_input::HostTerminalInput for Round {
    fn drop(&mut self, terminal: Resource<Terminal>) -> wasmtime::Result<()> {
        self.table.delete(terminal)?;
        Ok(())
    }
}

impl cli::terminal_output::Host for Round {}
impl cli::terminal_output::HostTerminalOutput for Round {
    fn drop(&mut self, terminal: Resource<Terminal>) -> wasmtime::Result<()> {
        self.table.delete(terminal)?;
        Ok(())
    }
}

impl cli::terminal_stdin::Host for Round {
    fn get_terminal_stdin(&mut self) -> wasmtime::Result<Option<Resource<Terminal>>> {
        Ok(None)
    }
}

impl cli::terminal_stdout::Host for Round {
    fn get_terminal_stdout(&mut self) -> wasmtime::Result<Option<Resource<Terminal>>> {
        Ok(None)
    }
}

impl cli::terminal_stderr::Host for Round {
    fn get_terminal_stderr(&mut self) -> wasmtime::Result<Option<Resource<Terminal>>> {
        Ok(None)
    }
}

impl clocks::monotonic_clock::Host for Round {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.now_ms.saturating_mul(1_000_000))
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(1_000_000)
    }

    fn subscribe_instant(&mut self, _: u64) -> wasmtime::Result<Resource<Pollable>> {
        Ok(self.table.push(Pollable)?)
    }

    fn subscribe_duration(&mut self, _: u64) -> wasmtime::Result<Resource<Pollable>> {
        Ok(self.table.push(Pollable)?)
    }
}

impl clocks::wall_clock::Host for Round {
    fn now(&mut self) -> wasmtime::Result<clocks::wall_clock::Datetime> {
        Ok(clocks::wall_clock::Datetime {
            seconds: self.now_ms / 1000,
            nanoseconds: u32::try_from(self.now_ms % 1000)? * 1_000_000,
        })
    }

    fn resolution(&mut self) -> wasmtime::Result<clocks::wall_clock::Datetime> {
        Ok(clocks::wall_clock::Datetime {
            seconds: 0,
            nanoseconds: 1_000_000,
        })
    }
}

impl Round {
    fn random_bytes(&mut self, count: u64) -> wasmtime::Result<Vec<u8>> {
        if count > RANDOM_BYTES {
            return self.trip(PluginError::TransferExceeded {
                limit_bytes: usize::try_from(RANDOM_BYTES)?,
            });
        }
        let count = usize::try_from(count)?;
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next_random().to_le_bytes());
        }
        bytes.truncate(count);
        Ok(bytes)
    }
}

impl random::random::Host for Round {
    fn get_random_bytes(&mut self, count: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(count)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.next_random())
    }
}

impl random::insecure::Host for Round {
    fn get_insecure_random_bytes(&mut self, count: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(count)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.next_random())
    }
}

impl random::insecure_seed::Host for Round {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.next_random(), self.next_random()))
    }
}
