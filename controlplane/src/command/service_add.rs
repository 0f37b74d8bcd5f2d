//! `service add`.

use config::spec::{Flags, ServiceRef, ServiceSpec};
use engine::sched::SchedulerKind;

use super::Command;
use super::words::{
    self, ForwardArgs, MaglevArgs, PersistenceArgs, QuorumArgs, RuleArgs, SlowStartArgs,
};
use crate::change::Change;
use crate::ctl::Failed;

/// Add a virtual service, at first without servers
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl service add tcp|udp ADDRESS:PORT [OPTIONS]")]
pub struct ServiceAdd {
    /// What clients address: tcp or udp, then ADDRESS:PORT; port 0 is any port
    #[arg(required = true, num_args = 1..=2, value_name = "ENDPOINT")]
    service: Vec<String>,
    /// How a new connection picks its server
    #[arg(short, long, default_value = "wlc", value_parser = words::scheduler())]
    scheduler: SchedulerKind,
    /// Flags of the scheduler: sh-port, sh-fallback, mh-port, mh-fallback
    #[arg(short = 'b', long = "sched-flags", value_name = "FLAGS", value_parser = words::flags)]
    flags: Option<Flags>,
    /// Its name in commands and lists; the endpoint if absent
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

impl Command for ServiceAdd {
    const METHOD: &'static str = "service.add";
    const EXAMPLES: &'static str = "
        sluicectl service add tcp 192.0.2.10:80 -s wlc --name web --slow-start 30s
        sluicectl service add udp 192.0.2.10:53 -s mh -b mh-port,mh-fallback --forward tunnel
        sluicectl service add tcp 192.0.2.10:443 -s mh --maglev-size 65537
        sluicectl service add tcp 192.0.2.10:8080 -s wrr -p 3600 -M 255.255.255.0
        sluicectl service add udp 192.0.2.10:514 -s rr --ops
        sluicectl service add tcp 192.0.2.10:80 --quorum 3 --hysteresis 1 --no-server reset";

    fn change(self) -> Result<Change, Failed> {
        let ServiceRef::Endpoint(endpoint) = words::service(&self.service)? else {
            let text = "a new service is named by what clients address: tcp ADDRESS:PORT";
            return Err(Failed::Usage(text.into()));
        };
        let mut spec = ServiceSpec::new(endpoint);
        spec.name = self.name.unwrap_or_default();
        spec.scheduler = self.scheduler;
        spec.flags = self.flags.unwrap_or_default();
        spec.forward = self.forward.forward()?.unwrap_or_default();
        spec.stray = self.rules.stray.unwrap_or_default();
        spec.sloppy = self.rules.sloppy.unwrap_or_default();
        spec.one_packet = self.rules.ops.unwrap_or_default();
        spec.on_remove = self.rules.on_remove.unwrap_or_default();
        spec.timeouts = self.rules.timeouts;
        spec.persistence = self.persistence.persistence.filter(|seconds| *seconds > 0);
        spec.persistence_netmask = self.persistence.persistence_netmask;
        spec.persistence_void = self.persistence.persistence_void.unwrap_or_default();
        let slow_start = self.slow_start.edit().slow_start(None);
        spec.slow_start = slow_start.map_err(|_| {
            Failed::Usage("--slow-start says how long what these options shape takes".into())
        })?;
        spec.maglev_hash = self.maglev.maglev_hash.unwrap_or_default();
        spec.maglev_size = self.maglev.maglev_size;
        spec.quorum = self.quorum.quorum.unwrap_or(spec.quorum);
        spec.hysteresis = self.quorum.hysteresis.unwrap_or_default();
        spec.no_server = self.quorum.no_server.unwrap_or_default();
        Ok(Change::AddService(spec))
    }
}
