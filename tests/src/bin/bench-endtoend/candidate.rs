//! Who is measured: how each is started in the director's namespace.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tests::daemon::{Daemon, config, end};
use tests::lab::Lab;
use tests::{output, program, wait_for};

use crate::case::Case;
use crate::cpu::Reading;
use crate::stage::Stage;

/// A director to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Candidate {
    SluiceDr,
    SluiceIpip,
    Haproxy,
    NginxStream,
    /// On the other device that a veth can have.
    SluiceDrXdp,
    /// With an lcore that only yields when idle, a virtual device's default.
    SluiceDrYield,
}

/// The address that proxies listen at; with Sluice it is the director's own.
const OWN: &str = "192.0.2.2";

impl Candidate {
    pub(crate) const ALL: [Self; 6] = [
        Self::SluiceDr,
        Self::SluiceIpip,
        Self::Haproxy,
        Self::NginxStream,
        Self::SluiceDrXdp,
        Self::SluiceDrYield,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SluiceDr => "sluice-dr",
            Self::SluiceIpip => "sluice-ipip",
            Self::Haproxy => "haproxy",
            Self::NginxStream => "nginx-stream",
            Self::SluiceDrXdp => "sluice-dr-xdp",
            Self::SluiceDrYield => "sluice-dr-yield",
        }
    }

    /// Whether it is measured only when it is named.
    pub(crate) const fn is_extra(self) -> bool {
        matches!(self, Self::SluiceDrXdp | Self::SluiceDrYield)
    }

    pub(crate) const fn is_sluice(self) -> bool {
        !matches!(self, Self::Haproxy | Self::NginxStream)
    }

    /// Where clients find it.
    pub(crate) const fn vip(self) -> &'static str {
        match self {
            Self::Haproxy | Self::NginxStream => OWN,
            Self::SluiceIpip => "192.0.2.20",
            _ => "192.0.2.10",
        }
    }

    /// Starts it on the director's core and waits until it serves.
    pub(crate) fn start(self, lab: &Lab, stage: &Stage) -> Result<Running> {
        let director = match self {
            Self::Haproxy => Director::proxy(lab, stage, haproxy(lab.state())?)?,
            Self::NginxStream => Director::proxy(lab, stage, nginx(lab.state())?)?,
            _ => Director::sluice(lab, stage, self)?,
        };
        // `ip netns pids` names all who are in the director's namespace: nobody else is.
        let running = Running { candidate: self, director, pids: lab.pids("d")? };
        ensure!(!running.pids.is_empty(), "{} ended at once", self.name());
        Ok(running)
    }
}

/// The names of candidates of these cases that this machine lacks.
pub(crate) fn missing(cases: &[Case]) -> Vec<&'static str> {
    let mut missing = Vec::new();
    for (candidate, there) in [
        (Candidate::Haproxy, is_there("haproxy")),
        (Candidate::NginxStream, is_there("nginx") && Path::new(STREAM_MODULE).exists()),
    ] {
        if !there && cases.iter().any(|c| c.candidate == candidate) {
            missing.push(candidate.name());
        }
    }
    missing
}

fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).exists())
}

/// A candidate at work.
pub(crate) struct Running {
    candidate: Candidate,
    director: Director,
    pids: Vec<u32>,
}

enum Director {
    Sluice(Daemon),
    Proxy(Proxy),
}

impl Running {
    pub(crate) const fn candidate(&self) -> Candidate {
        self.candidate
    }

    /// The CPU time it has used.
    pub(crate) fn reading(&self) -> Result<Reading> {
        match &self.director {
            Director::Sluice(daemon) => Reading::of_sluice(daemon, &self.pids),
            Director::Proxy(_) => Reading::of(&self.pids),
        }
    }

    /// Ends it, which must succeed.
    pub(crate) fn stop(self) -> Result<()> {
        match self.director {
            Director::Sluice(daemon) => {
                ensure!(daemon.stop()?.success(), "sluiced ended badly");
                Ok(())
            }
            Director::Proxy(proxy) => proxy.stop(),
        }
    }
}

impl Director {
    fn sluice(lab: &Lab, stage: &Stage, candidate: Candidate) -> Result<Self> {
        let device = match candidate {
            Candidate::SluiceDrXdp => "net_af_xdp0,iface=eth0",
            _ => "net_af_packet0,iface=eth0",
        };
        let forward = if candidate == Candidate::SluiceIpip { "tunnel" } else { "dr" };
        let idle = if candidate == Candidate::SluiceDrYield { "yield" } else { "sleep" };
        let port =
            format!("device = \"{device}\"\naddresses = [\"{OWN}/24\"]\nidle = \"{idle}\"\n");
        let service = format!(
            "[[service]]\nname = \"web\"\nlisten = \"tcp {}:80\"\nscheduler = \"rr\"\n\
             forward = \"{forward}\"\nservers = [{{ address = \"192.0.2.11\" }}, \
             {{ address = \"192.0.2.12\" }}, {{ address = \"192.0.2.13\" }}]\n\
             [dpdk]\nhugepages = false\n",
            candidate.vip()
        );
        // The lcore goes to its core by itself, the other threads to the other cores.
        let mut sluiced = lab.command("d", "taskset");
        sluiced.args(["-c", &stage.all_cores()]).arg(program("sluiced"));
        let config = config(lab.state(), &[stage.core], &port, &service);
        Daemon::start(lab.state(), sluiced, &config).map(Self::Sluice)
    }

    fn proxy(lab: &Lab, stage: &Stage, words: Vec<String>) -> Result<Self> {
        let mut command = lab.command("d", "taskset");
        command.args(["-c", &stage.core.to_string()]).args(words);
        let log = std::fs::File::create(lab.state().join("proxy.log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let address = |verb: &str| {
            let mut ip = lab.command("d", "ip");
            ip.args(["addr", verb, &format!("{OWN}/24"), "dev", "eth0"]);
            ip
        };
        output(&mut address("add"))?;
        let limits = ["net.core.somaxconn=4096", "net.ipv4.ip_local_port_range=10000 65000"];
        output(lab.command("d", "sysctl").arg("-qw").args(limits))?;
        let mut proxy = Proxy { child: command.spawn().context("a proxy")?, leave: address("del") };
        wait_for("the proxy listens", Duration::from_secs(10), || {
            if let Some(status) = proxy.child.try_wait()? {
                bail!("{status}: {}", std::fs::read_to_string(lab.state().join("proxy.log"))?);
            }
            let listening = output(lab.command("d", "ss").args(["-Hltn", "sport = :80"]))?;
            Ok(!listening.is_empty())
        })?;
        Ok(Self::Proxy(proxy))
    }
}

/// A proxy on the director's address, which leaves with it.
struct Proxy {
    child: Child,
    leave: Command,
}

impl Proxy {
    fn stop(mut self) -> Result<()> {
        end(&mut self.child);
        output(&mut self.leave).map(drop)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// One thread; splicing spares it the copies of long replies.
fn haproxy(directory: &Path) -> Result<Vec<String>> {
    let file = directory.join("haproxy.cfg");
    let text = format!(
        "global\n  nbthread 1\n  maxconn 4096\ndefaults\n  mode tcp\n  balance roundrobin\n  \
         option splice-auto\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
         listen web\n  bind {OWN}:80 backlog 4096\n  server s1 192.0.2.11:80\n  \
         server s2 192.0.2.12:80\n  server s3 192.0.2.13:80\n"
    );
    std::fs::write(&file, text)?;
    Ok(["haproxy", "-db", "-f", &file.display().to_string()].map(str::to_owned).into())
}

const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// One worker, round robin.
fn nginx(directory: &Path) -> Result<Vec<String>> {
    let (file, at) = (directory.join("stream.conf"), directory.display());
    let text = format!(
        "load_module {STREAM_MODULE};\ndaemon off;\nworker_processes 1;\npid {at}/stream.pid;\n\
         error_log {at}/stream.log;\nevents {{ worker_connections 4096; }}\n\
         stream {{\n  upstream web {{ server 192.0.2.11:80; server 192.0.2.12:80; \
         server 192.0.2.13:80; }}\n  server {{ listen {OWN}:80 backlog=4096; proxy_pass web; }}\n}}\n"
    );
    std::fs::write(&file, text)?;
    let log = format!("{at}/stream.log");
    Ok(["nginx", "-e", &log, "-c", &file.display().to_string()].map(str::to_owned).into())
}
