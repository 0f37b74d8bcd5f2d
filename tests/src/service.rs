//! What directors of the lab serve: services on its three real servers, as TOML.

/// The device of a director in the lab: works everywhere, one queue.
pub const DEVICE: &str = "net_af_packet0,iface=eth0";
/// The same with a queue for each of two lcores.
pub const TWO_QUEUES: &str = "net_af_packet0,iface=eth0,qpairs=2";

/// Where [`web`] listens.
pub const LISTEN: &str = "192.0.2.10:80";
/// Its first page.
pub const URL: &str = "http://192.0.2.10/";

/// `web`: direct routing, servers `web-1` to `web-3` with these weights.
pub fn web(scheduler: &str, weights: [u32; 3]) -> String {
    service("web", LISTEN, scheduler, "dr", weights)
}

/// A TCP service on the lab's three real servers, `NAME-1` to `NAME-3`.
pub fn service(
    name: &str,
    listen: &str,
    scheduler: &str,
    forward: &str,
    weights: [u32; 3],
) -> String {
    let server = |(i, weight)| {
        format!("  {{ name = \"{name}-{i}\", address = \"192.0.2.1{i}\", weight = {weight} }},\n")
    };
    let servers: String = (1..).zip(weights).map(server).collect();
    format!(
        "\n[[service]]\nname = \"{name}\"\nlisten = \"tcp {listen}\"\n\
         scheduler = \"{scheduler}\"\nforward = \"{forward}\"\nservers = [\n{servers}]\n"
    )
}
