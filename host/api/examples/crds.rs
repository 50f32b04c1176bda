//! Writes the definitions into a directory: `cargo run -p windlass-api --example crds -- DIR`. The same as `windlass crds --dir
//! DIR`, without compiling all of `windlass` first.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("error: name the directory to write to");
        return ExitCode::from(2);
    };
    for file in windlass_api::crd::files(windlass_api::crd::Format::Yaml) {
        let path = Path::new(&directory).join(&file.name);
        if let Err(error) = std::fs::write(&path, &file.text) {
            eprintln!("error: {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
