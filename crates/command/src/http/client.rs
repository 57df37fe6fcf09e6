//! Who connects, and the share that a client may take.

use std::net::{IpAddr, Ipv6Addr, TcpStream};

use crate::tcp_owner::{Owner, owner};

/// Who connects, for what one client may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Whose end of the connection it is. All whose user is not known are one client.
    Local(Owner),
    /// Another machine: an IPv4 address, or an IPv6 network of 64 bits, which one machine may
    /// have all addresses of.
    Remote(IpAddr),
}

impl Client {
    /// The user who serves.
    pub fn own() -> Self {
        Self::Local(Owner::User(rustix::process::geteuid().as_raw()))
    }

    /// The other end of a connection.
    pub fn of(stream: &TcpStream) -> Self {
        let (Ok(peer), Ok(local)) = (stream.peer_addr(), stream.local_addr()) else {
            return Self::Local(Owner::Gone);
        };
        match peer.ip().to_canonical() {
            ip if ip.is_loopback() || ip == local.ip().to_canonical() => {
                Self::Local(owner(peer, local))
            }
            IpAddr::V4(ip) => Self::Remote(IpAddr::V4(ip)),
            IpAddr::V6(ip) => {
                let network = u128::from(ip) >> 64 << 64;
                Self::Remote(IpAddr::V6(Ipv6Addr::from(network)))
            }
        }
    }

    /// Whose it is.
    pub fn owner(self) -> Owner {
        match self {
            Self::Local(owner) => owner,
            Self::Remote(_) => Owner::Unknown,
        }
    }

    /// Whether they are one client for what it may take.
    pub fn is(self, other: Self) -> bool {
        let is_known = |it| !matches!(it, Self::Local(Owner::Unknown | Owner::Gone));
        self == other || !is_known(self) && !is_known(other)
    }
}

/// Why there is no place for one more connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Full {
    /// Its client has its share.
    Share,
    /// The clients that do not serve have theirs.
    Others,
    /// All places are taken.
    All,
}

/// Whether there is a place for `client`, of `most`, if `taken` have one each.
pub fn place(taken: &[Client], client: Client, own: Client, most: usize) -> Result<(), Full> {
    let number = |wanted: &dyn Fn(Client) -> bool| taken.iter().filter(|it| wanted(**it)).count();
    if !client.is(own) {
        if number(&|it| it.is(client)) >= most / 4 {
            return Err(Full::Share);
        }
        if number(&|it| !it.is(own)) >= most - most / 4 {
            return Err(Full::Others);
        }
    }
    match taken.len() < most {
        true => Ok(()),
        false => Err(Full::All),
    }
}
