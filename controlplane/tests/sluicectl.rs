//! `sluicectl` as operators meet it: the binary, a real socket, the real control thread.

mod director;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use controlplane::{command, ctl};
use director::ctl::{err, good, out, run, status};
use director::{Director, fresh_folder};
use serde_json::Value;

/// The help's table columns of a row, by its first word.
fn cells<'a>(table: &'a str, first: &str) -> Vec<&'a str> {
    let line = table.lines().find(|l| l.split_whitespace().next() == Some(first));
    line.unwrap_or_else(|| panic!("no row {first} in\n{table}")).split_whitespace().collect()
}

fn help_of(path: &[&str]) -> String {
    let mut command = ctl::cli();
    let mut at = &mut command;
    for word in path {
        at = at.find_subcommand_mut(word).unwrap();
    }
    at.render_long_help().to_string()
}

#[test]
fn the_command_line_is_sound() {
    ctl::cli().debug_assert();
}

#[test]
fn every_command_has_help_and_examples_that_parse() {
    for words in command::WORDS {
        let path: Vec<_> = words.split(' ').collect();
        let help = help_of(&path);
        let (about, examples) = help.split_once("Examples:").expect(words);
        assert!(about.lines().next().is_some_and(|l| l.len() > 10), "{words}: {help}");
        let mut found = 0;
        for example in examples.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let line = example.split(['<', '>']).next().unwrap();
            let matches = ctl::cli()
                .try_get_matches_from(line.split_whitespace())
                .unwrap_or_else(|e| panic!("{example}: {e}"));
            let (chosen, leaf) = command::chosen(&matches).unwrap();
            assert_eq!(chosen, *words, "{example}");
            if is_change(words) {
                command::change(&chosen, leaf).unwrap_or_else(|e| panic!("{example}: {e}"));
            }
            found += 1;
        }
        assert!(found > 0, "{words} has no example");
    }
}

fn is_change(words: &str) -> bool {
    let verb = words.rsplit(' ').next().unwrap();
    words.contains(' ') && ["add", "edit", "del", "flush", "set"].contains(&verb)
}

#[test]
fn each_change_goes_over_the_line_and_comes_back_the_same() {
    for words in command::WORDS.iter().filter(|w| is_change(w)) {
        let path: Vec<_> = words.split(' ').collect();
        let help = help_of(&path);
        for line in help.lines().map(str::trim).filter(|l| l.starts_with("sluicectl")) {
            if !line.starts_with(&format!("sluicectl {words}")) || line.contains('|') {
                continue;
            }
            let matches = ctl::cli().try_get_matches_from(line.split_whitespace()).unwrap();
            let (chosen, leaf) = command::chosen(&matches).unwrap();
            let change = command::change(&chosen, leaf).unwrap();
            let wire = serde_json::to_value(&change).unwrap();
            let params = wire.get("params").cloned().unwrap_or_else(|| serde_json::json!({}));
            match command::work(wire["method"].as_str().unwrap(), params).unwrap() {
                command::Work::Changes(changes) => assert_eq!(changes, [change], "{line}"),
                other @ command::Work::Ask(_) => panic!("{line}: {other:?}"),
            }
        }
    }
}

#[test]
fn words_may_be_shortened_and_ipvsadm_s_are_known() {
    for (line, words) in [
        ("serv l", "service list"),
        ("servi a tcp 192.0.2.1:80", "service add"),
        ("serve l", "server list"),
        ("neigh", "neighbours"),
        ("conn", "connections"),
        ("t sh", "timeouts show"),
        ("service delete web", "service del"),
        ("hello", "version"),
        ("server add web 10.0.0.1 --gatewaying", "server add"),
        ("server add web 10.0.0.1 --ipip -w 5", "server add"),
        ("server add web 10.0.0.1 -x 1000 -y 800", "server add"),
        ("server edit web 10.0.0.1 --u-threshold 5 --l-threshold 0", "server edit"),
        ("server add tcp 192.0.2.1:80 10.0.0.1:80 --forward tunnel --tun-type ipip", "server add"),
        ("service add tcp 192.0.2.1:80 -s mh -b mh-port,mh-fallback", "service add"),
    ] {
        let args = std::iter::once("sluicectl").chain(line.split(' '));
        let matches = ctl::cli().try_get_matches_from(args).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(command::chosen(&matches).unwrap().0, words, "{line}");
    }
}

#[test]
fn a_wrong_command_line_ends_with_2_and_says_what_is_allowed() {
    let nobody = Path::new("/nonexistent/control.sock");
    for (line, part) in [
        ("s l", "s"),
        ("service", "Usage"),
        ("service add", "ENDPOINT"),
        ("service add web", "tcp ADDRESS:PORT"),
        ("service add tcp 192.0.2.1", "is not an endpoint"),
        ("service add tcp 192.0.2.1:80 -s best", "wlc"),
        (
            "service add tcp 192.0.2.1:80 -b mh-poort",
            "allowed: sh-port, sh-fallback, mh-port, mh-fallback",
        ),
        ("server add web 10.0.0.1 -m", "not supported yet"),
        ("server add web 10.0.0.1 -w -1", "not a whole number from 0 to 2147483647"),
        ("timeouts set -1 0 0", "not a whole number from 0 to 2678400"),
        ("service add sctp 192.0.2.10:80", "tcp or udp and ADDRESS:PORT"),
        ("service add -t 192.0.2.10:80", "named without -t: tcp 192.0.2.10:80"),
        ("server add tcp 192.0.2.10:80 -r 10.0.0.1", "named without -r"),
        ("server add web 10.0.0.1 --forward nat", "allowed: dr, tunnel"),
        ("server add web 10.0.0.1 -g -i", "cannot be used"),
        ("server add web 10.0.0.1 -w -1", "-1"),
        ("server add web 10.0.0.1 -w 2147483648", "2147483647"),
        ("server add web 10.0.0.1 -x 1073741824", "1073741823"),
        ("server add web", "SERVER"),
        ("server add tcp 192.0.2.1:80", "which server"),
        ("server edit web web-1", "nothing to change"),
        ("connections --cursor 3", "LCORE:BUCKET"),
        ("timeouts set 1 2", "<UDP>"),
        ("service flush", "--yes"),
        ("director stop", "--yes"),
    ] {
        let output = run(nobody, line, None);
        assert_eq!(status(&output), 2, "{line}");
        let text = err(&output);
        assert!(text.contains(part), "{line}: {text}");
        assert!(out(&output).is_empty(), "{line}");
    }
}

#[test]
fn without_a_director_it_ends_with_2_and_says_what_to_do() {
    let nobody = Path::new("/nonexistent/control.sock");
    for line in ["service list", "stats", "save", "version", "service flush --yes"] {
        let output = run(nobody, line, None);
        assert_eq!(status(&output), 2, "{line}");
        assert!(err(&output).contains("is sluiced running?"), "{line}: {}", err(&output));
        let output = run(nobody, &format!("{line} --json"), None);
        let document: Value = serde_json::from_str(&err(&output)).unwrap();
        assert_eq!(document["error"]["data"]["code"], "no_director");
    }
    for line in ["--help", "service add --help", "--version", "completions bash"] {
        assert_eq!(status(&run(nobody, line, None)), 0, "{line}");
    }
}

#[test]
fn services_and_servers_live_their_lives() {
    let director = Director::start();
    good(&director, "service add tcp 192.0.2.20:443 -s wrr --name tls");
    good(&director, "server add tls 10.0.1.21 -g -w 1500 --name tls-1");
    good(&director, "server add tcp 192.0.2.20:443 10.0.1.22:443 -i");
    let list = good(&director, "service list tls");
    assert_eq!(cells(&list, "tls")[1..5], ["tcp", "192.0.2.20:443", "wrr", "1,501"], "{list}");
    assert_eq!(cells(&list, "tls-1")[1..4], ["10.0.1.21:443", "Route", "1,500"]);
    assert_eq!(cells(&list, "10.0.1.22")[1..4], ["10.0.1.22:443", "Tunnel", "1"]);
    let header = list.lines().next().unwrap();
    assert!(header.starts_with("lb1 ready 0s | config #4 "), "{header}");
    assert!(header.contains("differs from sluice.toml | 2/2 lcores, busiest 0 % | conns "));
    assert!(header.ends_with("of 4M (0 %)"), "{header}");

    good(&director, "server edit tls tls-1 -w 7");
    good(&director, "server edit tls 10.0.1.22 --admin drain");
    let list = good(&director, "server list tls");
    assert_eq!(cells(&list, "tls-1")[4..8], ["7", "7", "enabled", "unknown"], "{list}");
    assert_eq!(cells(&list, "10.0.1.22")[4..8], ["1", "0", "drain", "unknown"]);
    good(&director, "service edit tls -s lc --stray drop");
    good(&director, "server del tls tls-1 --purge");
    good(&director, "service del tcp 192.0.2.20:443");
    let gone = run(&director.socket, "service list tls", None);
    assert_eq!(status(&gone), 1);
    assert!(err(&gone).contains("hint: "), "{}", err(&gone));
    good(&director, "service flush --yes");
    assert!(!good(&director, "service list").contains("web"));
}

#[test]
fn a_list_looks_like_this() {
    let director = Director::start();
    good(&director, "server add web 203.0.113.21 -i -w 1250 --name web-b");
    let list = good(&director, "service list");
    let (_, table) = list.split_once('\n').unwrap();
    // Nobody answers ARP behind the stand-in lcores.
    let expected = "
SERVICE/server  Address            Sched/Fwd  Weight    Eff  State         ActiveConn  InActConn  Share  Want
web             tcp 192.0.2.10:80  wlc         1,500  1,500  0/3 up                 0          0
  web-1         10.0.1.11:80       Route         100    100  no-neighbour           0          0      -   7 %
  web-2         10.0.1.12:80       Route         150    150  no-neighbour           0          0      -  10 %
  web-b         203.0.113.21:80    Tunnel      1,250  1,250  no-neighbour           0          0      -  83 %
";
    assert_eq!(table, expected.trim_start());
}

#[test]
fn a_change_says_who_made_it() {
    let director = Director::start();
    good(&director, "server edit web web-1 -w 5");
    let document: Value = serde_json::from_str(&good(&director, "service list --json")).unwrap();
    let me = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap();
    assert_eq!(document["director"]["by"], me.name);
}

#[test]
fn a_refusal_ends_with_1_and_has_a_stable_code() {
    let director = Director::start();
    for (line, expected) in [
        ("service add tcp 192.0.2.10:80", "service_exists"),
        ("service del nope", "no_such_service"),
        ("server add web 10.0.1.11", "server_exists"),
        ("server edit web nope -w 1", "no_such_server"),
        ("zero nope", "no_such_service"),
    ] {
        let output = run(&director.socket, &format!("{line} --json"), None);
        assert_eq!(status(&output), 1, "{line}: {}", err(&output));
        let document: Value = serde_json::from_str(&err(&output)).unwrap();
        assert_eq!(document["version"], 1);
        assert_eq!(document["error"]["data"]["code"], expected, "{line}");
    }
}

#[test]
fn every_list_has_a_header_fits_120_columns_and_speaks_json() {
    let director = Director::start();
    for (line, key) in [
        ("service list", "services"),
        ("server list", "services"),
        ("stats", "services"),
        ("stats --rate", "services"),
        ("connections", "connections"),
        ("neighbours", "neighbours"),
        ("ports", "ports"),
        ("lcores", "lcores"),
        ("director show", "memory"),
    ] {
        let text = good(&director, line);
        assert!(text.starts_with("lb1 ready "), "{line}: {text}");
        assert!(!text.contains('\u{1b}'), "{line}: colours in a pipe");
        for row in text.lines() {
            assert!(row.chars().count() <= 120, "{line}: {row}");
            assert_eq!(row, row.trim_end());
        }
        let json = good(&director, &format!("{line} --json"));
        assert_eq!(json.lines().count(), 1);
        let document: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["version"], 1, "{line}");
        assert_eq!(document["director"]["name"], "lb1", "{line}");
        assert!(document[key].is_array() || document[key].is_object(), "{line}: {json}");
    }
    let stats = good(&director, "stats --rate");
    assert!(stats.contains("In bit/s"), "{stats}");
    assert!(stats.contains("drops/s  no-neighbour 0  no-server 0  tx-full 0 | lcores 0 0 %"));
    assert_eq!(cells(&stats, "web-1")[1..6], ["0", "0", "0", "-", "-"]);
}

#[test]
fn the_json_of_services_has_the_promised_keys() {
    let director = Director::start();
    let json = good(&director, "service list --json");
    let document: Value = serde_json::from_str(&json).unwrap();
    let service = &document["services"][0];
    for key in ["name", "protocol", "address", "port", "scheduler", "flags", "servers"] {
        assert!(!service[key].is_null(), "{key}: {service}");
    }
    for key in [
        "name",
        "address",
        "port",
        "forward",
        "weight",
        "effective_weight",
        "admin",
        "health",
        "active",
        "inactive",
        "conns",
        "in_packets",
        "in_bytes",
    ] {
        assert!(!service["servers"][0][key].is_null(), "{key}: {service}");
    }
    assert!(service["servers"][0]["in_packets"].is_u64());
}

#[test]
fn connections_come_in_pages_and_each_exactly_once() {
    let director = Director::start();
    let first = good(&director, "connections --limit 50");
    let last = first.lines().last().unwrap();
    assert!(last.starts_with("more: add --cursor "), "{last}");
    assert!(first.contains("\ntable  "), "{first}");
    let cursor = last.split_whitespace().nth(3).unwrap().trim_end_matches(',');
    let second = good(&director, &format!("connections --limit 50 --cursor {cursor}"));
    assert_ne!(first.lines().nth(2), second.lines().nth(2));
    let all = good(&director, "connections --limit 50 --all");
    let mut sources: Vec<_> = all
        .lines()
        .filter_map(|l| l.split_whitespace().nth(3))
        .filter(|s| s.contains(':'))
        .collect();
    // Both lcores claim the same client ports: each of them twice.
    assert_eq!(sources.len(), 2 * director::ROWS as usize, "{all}");
    sources.sort_unstable();
    sources.dedup();
    assert_eq!(sources.len(), director::ROWS as usize);
    assert_eq!(all.matches("Source").count(), 1);
    let json = good(&director, "connections --limit 50 --all --json");
    let rows = json.lines().map(|l| {
        let page: Value = serde_json::from_str(l).unwrap();
        page["connections"].as_array().unwrap().len()
    });
    assert_eq!(rows.sum::<usize>(), 2 * director::ROWS as usize);
}

#[test]
fn a_stuck_lcore_is_named_and_no_list_waits_for_it() {
    let director = Director::start();
    director.stick(true);
    let start = Instant::now();
    for line in ["service list", "stats", "lcores", "ports", "neighbours", "director show"] {
        good(&director, line);
    }
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());

    let late = run(&director.socket, "server edit web web-1 -w 7 --json", None);
    assert_eq!(status(&late), 1);
    let document: Value = serde_json::from_str(&err(&late)).unwrap();
    assert_eq!(document["error"]["data"]["code"], "not_yet_applied");
    assert_eq!(document["error"]["data"]["lcores"], serde_json::json!([3]));
    assert!(good(&director, "service list").contains("updating"));

    let part = run(&director.socket, "connections --all", None);
    assert_eq!(status(&part), 0, "{}", err(&part));
    assert!(err(&part).contains("lcores [3] did not answer"), "{}", err(&part));
    assert!(out(&part).lines().count() > director::ROWS as usize);

    director.stick(false);
    let ready = || good(&director, "service list").starts_with("lb1 ready");
    assert!(director::within(Duration::from_secs(5), ready));
    assert_eq!(cells(&good(&director, "service list"), "web-1")[3], "7");
}

#[test]
fn timeouts_zero_and_version_answer() {
    let director = Director::start();
    assert_eq!(good(&director, "timeouts show"), "tcp 900 s  tcpfin 120 s  udp 300 s\n");
    good(&director, "timeouts set 7200 0 60");
    assert_eq!(good(&director, "timeouts show"), "tcp 7200 s  tcpfin 120 s  udp 60 s\n");
    assert_eq!(good(&director, "zero"), "");
    assert_eq!(good(&director, "zero tcp 192.0.2.10:80"), "");
    assert_eq!(good(&director, "zero --json"), "{\"version\":1}\n");
    assert!(good(&director, "version").contains("sluiced"));
}

#[test]
fn save_and_restore_give_the_same_state_back() {
    let director = Director::start();
    good(&director, "service add udp 192.0.2.30:53 -s mh -b mh-port --name dns");
    good(&director, "server add dns 10.0.1.31 -w 3 --admin drain");
    good(&director, "timeouts set 0 0 33");
    let saved = good(&director, "save");
    config::parse(&saved, "saved").unwrap();
    good(&director, "service flush --yes");
    let output = run(&director.socket, "restore", Some(&saved));
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert_eq!(good(&director, "save"), saved);

    let broken = saved.replace("scheduler", "schedular");
    let output = run(&director.socket, "restore", Some(&broken));
    assert_eq!(status(&output), 2);
    assert!(err(&output).contains("schedular"), "{}", err(&output));
    assert_eq!(good(&director, "save"), saved);
}

#[test]
fn a_restore_beyond_the_line_limit_is_still_one_transaction() {
    let director = Director::start();
    let mut text = director::CONFIG.to_owned();
    for n in 0..4_000 {
        let (c, d) = (n / 250, n % 250 + 1);
        text.push_str(&format!(
            "[[service]]\nname = \"a-service-with-a-long-name-{n}\"\nlisten = \"tcp 203.0.{c}.{d}:80\"\n\
             servers = [{{ name = \"a-server-with-a-long-name\", address = \"10.0.1.{}\" }}]\n",
            11 + n % 200,
        ));
    }
    let output = run(&director.socket, "restore", Some(&text));
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert!(out(&output).contains("config #2 "), "{}", out(&output));
    let document: Value = serde_json::from_str(&good(&director, "service list --json")).unwrap();
    assert_eq!(document["services"].as_array().unwrap().len(), 4_001);
}

#[test]
fn a_batch_of_lines_is_one_step() {
    let director = Director::start();
    let lines: String = (1..=200)
        .map(|n| format!("service add tcp 192.0.2.10:{n}\n"))
        .filter(|l| !l.contains(":80\n"))
        .collect();
    let output = run(&director.socket, "batch", Some(&lines));
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert_eq!(out(&output), "config #2 on 2 lcores\n");
    let refused =
        run(&director.socket, "batch", Some("service add tcp 192.0.2.99:1\nservice del x"));
    assert_eq!(status(&refused), 1);
    assert!(err(&refused).contains("line 2: "), "{}", err(&refused));
    assert!(!good(&director, "service list").contains("192.0.2.99"));
}

#[test]
fn stop_ends_the_control_thread() {
    let director = Director::start();
    good(&director, "director show");
    assert_eq!(good(&director, "director stop --yes"), "stopping\n");
    assert!(director.ended());
}

#[test]
fn a_closed_pipe_is_a_normal_end() {
    let director = Director::start();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sluicectl"))
        .args(["connections", "--all", "--socket"])
        .arg(&director.socket)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn completions_and_man_pages_come_from_the_commands() {
    let nobody = Path::new("/nonexistent/control.sock");
    for shell in ["bash", "zsh", "fish"] {
        let script = out(&run(nobody, &format!("completions {shell}"), None));
        for word in ["timeouts", "neighbours", "gatewaying", "mh-fallback"] {
            assert!(script.contains(word) || word == "mh-fallback", "{shell}: {word}");
        }
    }
    let folder = fresh_folder();
    let output = run(nobody, &format!("man {}", folder.display()), None);
    assert_eq!(status(&output), 0, "{}", err(&output));
    let page = std::fs::read_to_string(folder.join("sluicectl-server-add.1")).unwrap();
    assert!(page.contains("sluicectl server add") && page.contains("Examples"), "{page}");
    std::fs::remove_dir_all(folder).unwrap();
}
