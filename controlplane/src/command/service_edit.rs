//! `service edit`.

use config::spec::Flags;
use engine::sched::SchedulerKind;

use super::Command;
use super::words::{
    self, ForwardArgs, MaglevArgs, PersistenceArgs, QuorumArgs, RuleArgs, SlowStartArgs,
};
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
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    persistence: PersistenceArgs,
    #[command(flatten)]
    slow_start: SlowStartArgs,
    #[command(flatten)]
    maglev: MaglevArgs,
    #[command(flatten)]
    quorum: QuorumArgs,
}

impl Command for ServiceEdit {
    const METHOD: &'static str = "service.edit";
    const EXAMPLES: &'static str = "
        sluicectl service edit tcp 192.0.2.10:80 -s wrr
        sluicectl service edit web -p 3600 --persistence-void weight-0
        sluicectl service edit web --stray drop
        sluicectl service edit web --quorum 2 --no-server fail-open
        sluicectl service edit web --slow-start 30s --slow-start-floor 10
        sluicectl service edit web --on-remove reset --timeouts 60,0,0 --sloppy=false";

    fn change(self) -> Result<Change, Failed> {
        let service = words::service(&self.service)?;
        let edit = change::ServiceEdit {
            name: self.name,
            scheduler: self.scheduler,
            flags: self.flags,
            forward: self.forward.forward()?,
            stray: self.rules.stray,
            sloppy: self.rules.sloppy,
            one_packet: self.rules.ops,
            on_remove: self.rules.on_remove,
            timeouts: self.rules.timeouts,
            persistence: self.persistence.persistence,
            persistence_netmask: self.persistence.persistence_netmask,
            persistence_void: self.persistence.persistence_void,
            maglev_hash: self.maglev.maglev_hash,
            maglev_size: self.maglev.maglev_size,
            quorum: self.quorum.quorum,
            hysteresis: self.quorum.hysteresis,
            no_server: self.quorum.no_server,
            ..self.slow_start.edit()
        };
        if edit == change::ServiceEdit::default() {
            return Err(Failed::Usage("nothing to change was given".into()));
        }
        Ok(Change::EditService { service, edit })
    }
}
