//! Client persistence through `sluicectl`.

mod director;

use director::Director;
use director::ctl::{err, good, out, run, status};
use engine::addr::Addr;
use engine::templates::{Holder, Place, Span};
use engine::ticks::{TickSpan, Ticks};

#[test]
fn persistence_is_said_in_ipvsadms_words() {
    let director = Director::start();
    let list = || good(&director, "service list");
    good(&director, "service add tcp 192.0.2.20:80 --name a -p -s rr");
    assert!(list().contains("rr -p300 "), "{}", list());
    good(&director, "service add udp 192.0.2.20:53 -s rr -p 60 -M 255.255.255.0 --name b");
    assert!(list().contains("rr -p60 -M24 "), "{}", list());
    good(&director, "service edit a --persistent 3600 --netmask 16 --persistence-void weight-0");
    let saved = good(&director, "save");
    let keys = "persistence = 3600\npersistence-netmask = 16\npersistence-void = \"weight-0\"\n";
    assert!(saved.contains(keys), "{saved}");
    good(&director, "service edit a -p 0");
    let changed = good(&director, "save");
    assert!(!changed.contains("3600") && !changed.contains("weight-0"), "{changed}");
    let restored = run(&director.socket, "restore", Some(&saved));
    assert_eq!(status(&restored), 0, "{}", err(&restored));
    assert_eq!(good(&director, "save"), saved);
    let json: serde_json::Value =
        serde_json::from_str(&good(&director, "service list a --json")).unwrap();
    let service = &json["services"][0];
    assert_eq!(
        (&service["persistence"], &service["persistence_netmask"]),
        (&3600.into(), &16.into())
    );
    assert_eq!(service["persistence_void"], "weight-0");
    for (refused, code, word) in [
        ("service edit web -M 24", 1, "is for services with `persistence`"),
        ("service edit a -M 33", 1, "33 bits"),
        ("service edit a -p 99999999", 1, "no time to remember"),
        ("service edit a -M 255.0.255.0", 2, "no netmask such as"),
        ("service edit a --persistence-void never", 2, "down, drain, weight-0"),
    ] {
        let refusal = run(&director.socket, refused, None);
        assert_eq!(status(&refusal), code, "{refused}");
        assert!(err(&refusal).contains(word), "{refused}: {}", err(&refusal));
    }
}

#[test]
fn wlc_beside_persistence_is_warned_of() {
    let director = Director::start();
    let warned = run(&director.socket, "service edit web -p 300", None);
    assert_eq!((status(&warned), out(&warned).as_str()), (0, "config #2 on 2 lcores\n"));
    assert!(err(&warned).contains("service web: wlc balances connections"), "{}", err(&warned));
    let quiet = run(&director.socket, "service edit web -p 400", None);
    assert_eq!((status(&quiet), err(&quiet).as_str()), (0, ""));
}

#[test]
fn templates_are_listed() {
    let director = Director::start();
    good(&director, "service edit web -p 3600 -M 24");
    let span = Span { now: Ticks(0), life: TickSpan::from_secs(3600) };
    for n in 0..20 {
        let holder = Holder { service: 0, client: Addr::v4([198, 51, n, 0]) };
        let place = Place { slot: u32::from(n) % 2, generation: 0 };
        assert!(director.templates.settle(&holder, place, span, |_| true).is_some());
    }
    let list = good(&director, "connections --templates");
    assert_eq!(list.lines().count(), 23, "{list}");
    assert!(list.lines().last().unwrap().starts_with("templates  "), "{list}");
    let head: Vec<_> = list.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["Pro", "Expire", "State", "Source", "Virtual", "Destination", "Service"]);
    let row = list.lines().find(|l| l.contains("198.51.3.0")).unwrap_or_default();
    let words: Vec<_> = row.split_whitespace().collect();
    assert_eq!(words[0], "tcp");
    let rest = ["ASSURED", "198.51.3.0/24:0", "192.0.2.10:80", "10.0.1.12:80", "web"];
    assert_eq!(words[2..], rest);
    good(&director, "server drain web-1 --no-wait");
    let list = good(&director, "connections --templates --server web-1");
    assert_eq!(list.matches(" VOID ").count(), 10, "{list}");
    // A page says how to go on, and --all goes on.
    let page = good(&director, "connections --templates --limit 5");
    assert!(page.lines().last().unwrap().starts_with("more: add --cursor 0:"), "{page}");
    let all = good(&director, "connections --templates --limit 5 --all");
    assert_eq!(all.lines().count(), 23, "{all}");
    let json = good(&director, "connections --templates --client 198.51.7.9 --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["templates"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["client_prefix"]), (1, &24.into()));
    let stats = good(&director, "stats");
    assert!(stats.contains("\ntemplates  "), "{stats}");
}
