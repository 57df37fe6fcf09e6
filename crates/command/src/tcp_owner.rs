//! Which user a TCP connection over the loopback address comes from: the kernel lists the owner
//! of each socket in /proc/net/tcp and tcp6 (proc_pid_net(5)).

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Whose the other end of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The user with this id, in this process's user namespace.
    User(u32),
    /// There is no such socket: it was closed.
    Gone,
    /// The kernel does not tell.
    Unknown,
}

/// The owner of the socket at `peer` that is connected to `local`.
pub fn owner(peer: SocketAddr, local: SocketAddr) -> Owner {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    if tables.iter().all(Result::is_err) {
        return Owner::Unknown;
    }
    let mut found = tables
        .iter()
        .flatten()
        .filter_map(|table| find(table, peer, local));
    found.next().map_or(Owner::Gone, Owner::User)
}

/// The owner in one table.
fn find(table: &str, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let is_it = is_address(fields.nth(1)?, peer) && is_address(fields.next()?, local);
        // Between them: the state, queues, timers and retransmissions.
        let user = fields.nth(4)?;
        is_it.then(|| user.parse().ok()).flatten()
    })
}

/// Whether an entry such as `0100007F:1F90` is this address. A socket for both IPv6 and IPv4 has
/// it as an IPv4-mapped address (RFC 4291, 2.5.5.2).
fn is_address(entry: &str, address: SocketAddr) -> bool {
    let Some((host, port)) = entry.split_once(':') else {
        return false;
    };
    // The kernel prints each four bytes as one number of the machine's byte order.
    let number = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
    let numbers = |octets: [u8; 16]| -> String {
        let words = octets.as_chunks().0.iter();
        words.map(|bytes| number(*bytes)).collect()
    };
    let is_host = match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            host == number(ip.octets()) || host == numbers(ip.to_ipv6_mapped().octets())
        }
        IpAddr::V6(ip) => host == numbers(ip.octets()),
    };
    is_host && u16::from_str_radix(port, 16) == Ok(address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    // As x86-64 prints them.
    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 101 1 0 20 4 30 10 -1
   2: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 102 1 0 20 4 30 10 -1
";
    const MAPPED: &str = "  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode
   0: 0000000000000000FFFF00000100007F:C351 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 103 1 0 20 4 30 10 -1
";

    #[test]
    fn the_socket_of_the_other_end_is_found() {
        assert_eq!(find(TABLE, address(50000), address(8080)), Some(1000));
        assert_eq!(find(TABLE, address(50001), address(8080)), None);
        assert_eq!(find(TABLE, address(50000), address(8081)), None);
        assert_eq!(find(MAPPED, address(50001), address(8080)), Some(1001));
        assert_eq!(find("", address(1), address(2)), None);
        assert_eq!(find("x\ny\nz :::", address(1), address(2)), None);
    }

    #[test]
    fn a_connection_of_ones_own_is_ones_own() {
        let ipv6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
        for address in [address(0), ipv6] {
            let Ok(listener) = TcpListener::bind(address) else {
                // A machine may have no IPv6.
                assert_eq!(address, ipv6);
                continue;
            };
            let local = listener.local_addr().expect("an address");
            let client = TcpStream::connect(local).expect("a connection");
            let peer = client.local_addr().expect("an address");
            let own = rustix::process::geteuid().as_raw();
            assert_eq!(owner(peer, local), Owner::User(own));
        }
    }
}
