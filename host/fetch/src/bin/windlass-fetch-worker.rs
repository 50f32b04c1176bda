//! The child process as a program of its own, for this crate's tests.

fn main() -> std::process::ExitCode {
    windlass_fetch::worker::main()
}
