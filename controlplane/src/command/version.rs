//! `version`, by the method `hello`.

use serde_json::Value;

use super::{Command, NoParams, Work, ask};
use crate::ctl::{Ctl, Failed};
use crate::document::Hello;
use crate::protocol::{self, Failure};

/// Show the versions of sluicectl and of the director
#[derive(Debug, clap::Args)]
#[command(alias = "hello")]
pub struct Version {}

impl Command for Version {
    const METHOD: &'static str = "hello";
    const EXAMPLES: &'static str = "
        sluicectl version
        sluicectl hello --json";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |NoParams {}, control| {
            Ok(Hello {
                protocol: protocol::VERSION,
                program: "sluiced".to_owned(),
                program_version: env!("CARGO_PKG_VERSION").to_owned(),
                name: control.header().name,
            })
        })
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        ctl.show(Self::METHOD, &NoParams {}, |hello: &Hello| {
            let mut text = format!(
                "sluicectl {} protocol {}\n{} {} protocol {} ({})\n",
                env!("CARGO_PKG_VERSION"),
                protocol::VERSION,
                hello.program,
                hello.program_version,
                hello.protocol,
                hello.name,
            );
            if hello.protocol != protocol::VERSION {
                text.push_str("they speak different protocols: install the same version of both\n");
            }
            text
        })
    }
}
