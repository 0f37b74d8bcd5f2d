//! `service edit`.

use config::spec::{Flags, MaglevHash, Stray};
use engine::sched::SchedulerKind;

use super::Command;
use super::words::{self, ForwardArgs};
use crate::change::{self, Change};
use crate::ctl::Failed;

/// Change a service; its connections stay
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl service edit SERVICE [OPTIONS]")]
pub struct ServiceEdit {
    /// Which: its name, or tcp|udp and ADDRESS:PORT
    #[arg(required = true, num_args = 1..=2)]
    service: Vec<String>,
    /// How a new connection picks its server
    #[arg(short, long, value_parser = words::scheduler())]
    scheduler: Option<SchedulerKind>,
    /// Flags of the scheduler: sh-port, sh-fallback, mh-port, mh-fallback; empty for none
    #[arg(short = 'b', long = "sched-flags", value_name = "FLAGS", value_parser = words::flags)]
    flags: Option<Flags>,
    /// Another name
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    forward: ForwardArgs,
    /// Packets that belong to no connection: reset or drop
    #[arg(long, value_name = "POLICY")]
    stray: Option<Stray>,
    /// How mh hashes: keyed, by the director's mh-key; or kernel, to agree with Linux directors
    #[arg(long, value_name = "HASH")]
    maglev_hash: Option<MaglevHash>,
    /// Places in the table of mh: a prime, 100 for each server or more
    #[arg(long, value_name = "PLACES")]
    maglev_size: Option<u32>,
}

impl Command for ServiceEdit {
    const METHOD: &'static str = "service.edit";
    const EXAMPLES: &'static str = "
        sluicectl service edit tcp 192.0.2.10:80 -s wrr
        sluicectl service edit web --stray drop";

    fn change(self) -> Result<Change, Failed> {
        let service = words::service(&self.service)?;
        let edit = change::ServiceEdit {
            name: self.name,
            scheduler: self.scheduler,
            flags: self.flags,
            forward: self.forward.forward()?,
            stray: self.stray,
            maglev_hash: self.maglev_hash,
            maglev_size: self.maglev_size,
        };
        if edit == change::ServiceEdit::default() {
            return Err(Failed::Usage("nothing to change was given".into()));
        }
        Ok(Change::EditService { service, edit })
    }
}
