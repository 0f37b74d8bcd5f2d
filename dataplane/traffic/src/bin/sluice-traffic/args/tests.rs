//! Command lines that say something, and those that contradict themselves.

use clap::CommandFactory;

use super::*;

/// `Err`: what is said to the user, with the option that is wrong.
fn parse(words: &str) -> Result<Mode, String> {
    let words = format!("sluice-traffic {words} --tx net_null0");
    let args = Args::try_parse_from(words.split(' ')).map_err(|e| e.to_string())?;
    args.mode.check().map_err(|e| e.to_string())?;
    Ok(args.mode)
}

#[test]
fn what_is_asked_for_is_understood() {
    Args::command().debug_assert();
    let words = "run --vip [2001:db8::10]:443 --to 02:00:00:00:00:01 --quic --migrate 0.1 --imix";
    let Ok(Mode::Run(run)) = parse(words) else { panic!("a run") };
    assert_eq!((run.transport(), run.vip.port(), run.vip().is_v4()), (Transport::Quic, 443, false));
    assert_eq!(run.sizes(), Sizes::imix(Transport::Quic, false));
    let Ok(Mode::Run(run)) = parse("run --life cycle") else { panic!("a run") };
    assert_eq!((run.life(), run.transport()), (Life::Cycle(10), Transport::Tcp));
    for words in ["search zero-loss --life cycle --zipf 1", "search table --between true"] {
        assert!(matches!(parse(words), Ok(Mode::Search { .. })), "{words}");
    }
}

#[test]
fn what_contradicts_itself_is_refused_by_name() {
    for (words, option) in [
        ("run --udp --quic", "--quic"),
        ("run --migrate 0.5", "--quic"),
        ("run --quic --migrate 1.5", "--migrate"),
        ("run --quic --life syn --migrate 1", "--migrate"),
        ("run --udp --life syn", "--life syn"),
        ("run --life syn --zipf 1", "--zipf"),
        ("run --life syn --new-flows 5", "--new-flows"),
        ("run --packets-per-flow 5", "--life cycle"),
        ("run --life cycle --packets-per-flow 2", "--packets-per-flow"),
        ("run --vip [2001:db8::10]:80", "--to"),
        ("run --frame 75", "--frame: 76"),
        ("run --vip [2001:db8::10]:80 --to 02:00:00:00:00:01 --frame 95", "--frame: 96"),
        ("run --quic --frame 76", "--frame: 77"),
        ("run --frame 100 --imix", "--imix"),
        ("run --rate 2000000", "--line-rate"),
        ("run --flows 0", "--flows"),
        ("run --vip 192.0.2.10", "--vip"),
        ("search zero-loss --packets 5", "--packets"),
        ("search zero-loss --interactive", "--interactive"),
        ("search zero-loss --near 0.9", "--near"),
        ("search zero-loss --between true", "--between"),
        ("search cps --life hits", "--life"),
        ("search table --zipf 1", "--zipf"),
        ("search cps --new-flows 5", "--new-flows"),
    ] {
        let said = parse(words).expect_err(words);
        assert!(said.contains(option), "{words}: {said}");
    }
}

#[test]
fn every_option_says_what_it_does() {
    let command = Args::command();
    for mode in ["run", "search"] {
        let mode = command.find_subcommand(mode).expect("a mode");
        for arg in mode.get_arguments() {
            assert!(arg.get_help().is_some(), "{} {}", mode.get_name(), arg.get_id());
        }
    }
}
