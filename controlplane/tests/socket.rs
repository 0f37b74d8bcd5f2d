//! The control socket under clients that are wrong, slow, many, large or suddenly gone.

mod director;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use controlplane::change::Change;
use controlplane::client::Client;
use controlplane::socket::{Limits, Server, SocketError};
use crossbeam::channel::unbounded;
use director::{Director, Talk, code, fresh_folder, within};
use serde_json::{Value, json};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"hello"}"#;

fn short() -> Limits {
    Limits {
        idle: Duration::from_secs(2),
        line: Duration::from_millis(200),
        write: Duration::from_millis(300),
        ..Limits::default()
    }
}

fn add(n: usize) -> Value {
    let (c, d) = (n / 250, n % 250 + 1);
    json!({"method": "service.add", "params": {
        "protocol": "tcp", "address": format!("203.0.{c}.{d}"), "port": 80,
        "servers": [{"address": format!("10.0.1.{}", 11 + n % 200)}],
    }})
}

fn alive(director: &Director) {
    let hello = director.connect().line(HELLO);
    assert_eq!(hello["result"]["program"], "sluiced", "{hello}");
    assert_eq!(hello["result"]["protocol"], 1);
    assert_eq!(hello["result"]["name"], "lb1");
}

#[test]
fn garbage_gets_an_answer_with_a_stable_code() {
    let director = Director::start();
    let mut talk = director.connect();
    for (line, expected) in [
        ("garbage", "bad_json"),
        ("", "bad_json"),
        ("\u{0}\u{1}", "bad_json"),
        ("[1,2]", "bad_request"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"fly"}"#, "no_such_method"),
        (r#"{"jsonrpc":"2.0","id":1,"method":""}"#, "no_such_method"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"service.list","params":{"x":1}}"#, "bad_params"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"service.list","params":{"service":"nope"}}"#,
            "no_such_service",
        ),
    ] {
        let answer = talk.line(line);
        assert_eq!(code(&answer), expected, "{line}: {answer}");
    }
    talk.send(&[0xff, 0xfe, b'\n']);
    assert_eq!(code(&talk.answer().unwrap()), "bad_json");
    assert_eq!(talk.line(HELLO)["result"]["name"], "lb1");
}

#[test]
fn a_line_of_2_mib_is_refused_and_the_next_one_answered() {
    let director = Director::start();
    let mut talk = director.connect();
    talk.send(&vec![b'x'; 2 << 20]);
    talk.send(b"\n");
    let answer = talk.answer().unwrap();
    assert_eq!(code(&answer), "request_too_large", "{answer}");
    assert_eq!(talk.line(HELLO)["result"]["name"], "lb1");
    // To the byte: one at the limit is read, one beyond it is not.
    let padded = |n: usize| format!("{HELLO}{}", " ".repeat(n - HELLO.len()));
    assert_eq!(talk.line(&padded(1 << 20))["result"]["name"], "lb1");
    assert_eq!(code(&talk.line(&padded((1 << 20) + 1))), "request_too_large");
}

#[test]
fn half_a_request_disturbs_nobody() {
    let director = Director::start_with(short());
    let mut killed = director.connect();
    killed.send(br#"{"jsonrpc":"2.0","id":1,"meth"#);
    drop(killed);
    let mut stuck = director.connect();
    stuck.send(br#"{"jsonrpc":"2.0","id":1,"meth"#);
    alive(&director);
    let start = Instant::now();
    assert_eq!(stuck.answer(), None);
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "closed by the line's limit, not the idle one"
    );
    assert!(within(Duration::from_secs(5), || director.clients() == 0));
}

#[test]
fn a_client_that_leaves_before_the_answer_disturbs_nobody() {
    let director = Director::start();
    for _ in 0..50 {
        let mut talk = director.connect();
        talk.send(br#"{"jsonrpc":"2.0","id":1,"method":"service.list"}"#);
        talk.send(b"\n");
        drop(talk);
    }
    alive(&director);
    assert!(within(Duration::from_secs(5), || director.clients() == 0));
}

#[test]
fn the_65th_client_is_told_so_and_closed() {
    let director =
        Director::start_with(Limits { spare: Duration::from_secs(60), ..Limits::default() });
    let mut clients: Vec<Talk> = (0..64).map(|_| director.connect()).collect();
    assert!(within(Duration::from_secs(5), || director.clients() == 64));
    for _ in 0..36 {
        let mut further = director.connect();
        let answer = further.answer().unwrap();
        assert_eq!(code(&answer), "too_many_clients");
        assert_eq!(answer["id"], Value::Null);
        assert_eq!(further.answer(), None);
    }
    for client in &mut clients {
        assert_eq!(client.line(HELLO)["result"]["name"], "lb1");
    }
    let refused = Client::connect(&director.socket).unwrap().ask("hello", &json!({})).unwrap_err();
    assert!(refused.to_string().contains("64 clients"), "{refused}");
    drop(clients);
    assert!(within(Duration::from_secs(5), || director.clients() == 0));
    alive(&director);
}

/// Whoever holds all places without a word keeps nobody out, and whoever asks keeps his.
#[test]
fn silent_clients_give_their_places_to_others() {
    // Who asked must still count as asking after six more exchanges on a busy machine.
    let spare = Duration::from_secs(4);
    let director = Director::start_with(Limits { clients: 4, spare, ..Limits::default() });
    let mut silent: Vec<Talk> = (0..3).map(|_| director.connect()).collect();
    let mut asking = director.connect();
    assert!(within(Duration::from_secs(5), || director.clients() == 4));
    std::thread::sleep(spare);
    asking.ask("hello", json!({})).unwrap();
    let mut late: Vec<Talk> = (0..3).map(|_| director.connect()).collect();
    for talk in &mut late {
        talk.ask("hello", json!({})).unwrap();
    }
    for talk in &mut silent {
        assert_eq!(talk.answer(), None, "closed");
    }
    asking.ask("hello", json!({})).unwrap();
    let mut refused = director.connect();
    assert_eq!(refused.answer().unwrap()["error"]["data"]["code"], "too_many_clients");
    assert_eq!(director.clients(), 4);
}

#[test]
fn a_client_that_does_not_read_is_dropped() {
    let director = Director::start_with(short());
    let mut slow = director.connect();
    let changes: Vec<_> = (0..1_000).map(add).collect();
    slow.ask("batch", json!({ "changes": changes })).unwrap();
    // Answers of several hundred kB each fill the socket's buffer.
    for _ in 0..8 {
        let _ = writeln!(slow.stream, r#"{{"jsonrpc":"2.0","id":1,"method":"service.list"}}"#);
    }
    assert!(within(Duration::from_secs(10), || director.clients() == 0), "still connected");
    alive(&director);
}

#[test]
fn a_batch_is_applied_as_a_whole_or_not_at_all() {
    let director = Director::start();
    let mut talk = director.connect();
    let before = talk.ask("service.list", json!({})).unwrap();
    let mut changes: Vec<_> = (0..10).map(add).collect();
    changes.push(json!({"method": "server.delete", "params": {"service": "web", "server": "x"}}));
    let error = talk.ask("batch", json!({ "changes": changes })).unwrap_err();
    assert_eq!(error["data"]["code"], "no_such_server", "{error}");
    assert_eq!(error["data"]["change"], 10);
    let after = talk.ask("service.list", json!({})).unwrap();
    assert_eq!(after["services"], before["services"]);
    assert_eq!(after["director"]["config"], before["director"]["config"]);
}

#[test]
fn ten_thousand_changes_make_one_snapshot() {
    let director = Director::start();
    let mut talk = director.connect();
    let before = talk.ask("service.list", json!({})).unwrap()["director"]["config"].clone();
    let weights = (0..10_000).map(|n| {
        json!({"method": "server.edit", "params": {
            "service": "web", "server": "web-1", "edit": {"weight": n},
        }})
    });
    let applied = talk.ask("batch", json!({"changes": weights.collect::<Vec<_>>()})).unwrap();
    assert_eq!(applied["lcores"], 2, "{applied}");
    let list = talk.ask("service.list", json!({})).unwrap();
    assert_eq!(list["services"][0]["servers"][0]["weight"], 9_999);
    assert_eq!(list["director"]["config"], before.as_u64().unwrap() + 1);
}

#[test]
fn a_batch_beyond_the_limit_comes_in_parts() {
    let director = Director::start();
    let changes: Vec<Change> =
        (0..12_000).map(|n| serde_json::from_value(edit_or_add(n)).unwrap()).collect();
    assert!(serde_json::to_string(&changes).unwrap().len() > 1 << 20);
    let mut client = Client::connect(&director.socket).unwrap();
    let applied = client.batch(&changes).unwrap();
    assert_eq!(applied["config"], 2, "{applied}");
    let list = client.ask("service.list", &json!({})).unwrap();
    assert_eq!(list["services"].as_array().unwrap().len(), 2_001);
    // Refused at its end: nothing of it stays.
    let mut wrong = changes;
    wrong.push(Change::AddService(config::ServiceSpec::new("tcp 192.0.2.10:80".parse().unwrap())));
    let refused = client.batch(&wrong).unwrap_err().to_string();
    assert!(!refused.is_empty());
    let after = client.ask("service.list", &json!({})).unwrap();
    assert_eq!(after["director"]["config"], 2);
}

fn edit_or_add(n: usize) -> Value {
    if n < 2_000 {
        return add(n);
    }
    json!({"method": "server.edit", "params": {
        "service": "web", "server": "web-1", "edit": {"weight": n},
    }})
}

#[test]
fn changes_one_by_one_are_answered_when_all_lcores_use_them() {
    let director = Director::start();
    let mut talk = director.connect();
    for n in 0..200 {
        let change = add(n);
        let applied = talk.ask("service.add", change["params"].clone()).unwrap();
        assert_eq!(applied["lcores"], 2);
    }
    for n in 0..200 {
        let name = format!("tcp 203.0.0.{}:80", n % 250 + 1);
        talk.ask("service.delete", json!({ "service": name })).unwrap();
    }
    let list = talk.ask("service.list", json!({})).unwrap();
    assert_eq!(list["services"].as_array().unwrap().len(), 1);
}

#[test]
fn the_path_is_ours_while_we_run_and_gone_afterwards() {
    let mut director = Director::start();
    let path = director.socket.clone();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let (jobs, _inbox) = unbounded();
    let second = Server::start(&path, jobs).unwrap_err();
    assert!(matches!(second, SocketError::InUse(_)), "{second}");
    assert!(second.to_string().contains("already running"));
    alive(&director);
    let mut waiting = director.connect();
    director.close_socket();
    assert!(!path.exists());
    assert_eq!(waiting.answer(), None);
}

#[test]
fn only_a_dead_director_s_socket_is_replaced() {
    let folder = fresh_folder();
    let path = folder.join("control.sock");
    drop(UnixListener::bind(&path).unwrap());
    let (jobs, _inbox) = unbounded();
    let server = Server::start(&path, jobs.clone()).unwrap();
    UnixStream::connect(&path).unwrap();
    // A successor's socket at the same path is not ours to remove.
    std::fs::remove_file(&path).unwrap();
    let successor = UnixListener::bind(&path).unwrap();
    drop(server);
    assert!(path.exists());
    drop(successor);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(Server::start(&path, jobs), Err(SocketError::NotASocket(_))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_ended_control_thread_is_said_and_not_waited_for() {
    let director = Director::start();
    let mut talk = director.connect();
    assert_eq!(talk.ask("director.stop", json!({})), Ok(Value::Null));
    assert!(director.ended());
    let start = Instant::now();
    let error = talk.ask("hello", json!({})).unwrap_err();
    assert_eq!(error["data"]["code"], "stopping");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn two_requests_in_one_write_get_two_answers() {
    let director = Director::start();
    let mut talk = director.connect();
    let twice = format!("{HELLO}\n{}\n", HELLO.replace("\"id\":1", "\"id\":\"b\""));
    talk.send(twice.as_bytes());
    assert_eq!(talk.answer().unwrap()["id"], 1);
    assert_eq!(talk.answer().unwrap()["id"], "b");
    talk.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    talk.stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

/// Whatever is sent, each line gets one answer, and the next client is served.
#[test]
fn any_bytes_get_one_answer_a_line() {
    use proptest::prelude::{ProptestConfig, any};
    let director = Director::start();
    let lines = proptest::collection::vec(any::<u8>(), 1..4_000);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&lines, |mut bytes| {
        bytes.push(b'\n');
        let mut talk = director.connect();
        talk.send(&bytes);
        for _ in 0..bytes.iter().filter(|b| **b == b'\n').count() {
            let answer = talk.answer().expect("an answer to each line");
            proptest::prop_assert!(answer["error"]["data"]["code"].is_string());
        }
        alive(&director);
        Ok(())
    });
    outcome.unwrap();
}
