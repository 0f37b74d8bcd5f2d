//! `sluicectl`: controls a running director over its socket.

use std::process::ExitCode;

fn main() -> ExitCode {
    controlplane::ctl::main(std::env::args_os()).into()
}
