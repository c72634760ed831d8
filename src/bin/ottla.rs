//! The `ottla` command. See `ottla --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ottla::cli::main()
}
