//! What clients get whose users are not known, and the shares of all.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::*;
use crate::tcp_owner::Owner;

const OWN: Client = Client::Local(Owner::User(1000));
const OTHER: Client = Client::Local(Owner::User(1001));
const UNKNOWN: Client = Client::Local(Owner::Unknown);

fn remote(last: u8) -> Client {
    Client::Remote(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)))
}

#[test]
fn a_client_gets_a_quarter_and_all_others_leave_a_quarter() {
    let place = |taken: &[Client], client| place(taken, client, OWN, 16);
    for client in [OTHER, UNKNOWN, remote(1)] {
        assert_eq!(place(&[client; 3], client), Ok(()), "{client:?}");
        assert_eq!(place(&[client; 4], client), Err(Full::Share), "{client:?}");
        assert_eq!(place(&[client; 4], OWN), Ok(()), "{client:?}");
    }
    // Who is not known is one client.
    let gone = Client::Local(Owner::Gone);
    assert_eq!(
        place(&[gone, gone, UNKNOWN, UNKNOWN], UNKNOWN),
        Err(Full::Share)
    );
    let others: Vec<Client> = (0..12).map(|number| remote(number / 4)).collect();
    assert_eq!(place(&others, remote(9)), Err(Full::Others));
    assert_eq!(place(&others, OWN), Ok(()));
    assert_eq!(place(&[OWN; 16], OWN), Err(Full::All));
    assert_eq!(place(&[OWN; 16], OTHER), Err(Full::All));
}

struct Hello;

impl Responder for Hello {
    fn check_host(&self, _: &str) -> Result<(), &'static str> {
        Ok(())
    }

    fn answer(&self, _: &str) -> Answer {
        Answer::text(200, "hello")
    }
}

/// Clients that never end their requests, and 50 that do.
fn fifty_among_idle_ones(client: fn(&TcpStream) -> Client) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    start_for(listener, Hello, client).expect("it starts");
    let idle = |number: usize| {
        let mut stream = TcpStream::connect(address).expect("a connection");
        if number.is_multiple_of(2) {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nX: ");
        }
        stream
    };
    let mut all: Vec<TcpStream> = (0..2 * WAITING).map(idle).collect();
    for number in 0..50 {
        // They come again as soon as they are closed.
        all.push(idle(number));
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("sent");
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        assert!(
            answer.ends_with("\r\n\r\nhello\n"),
            "{number}: {read:?} {answer}"
        );
    }
}

#[test]
fn idle_clients_hold_up_nobody_where_no_user_is_known() {
    fifty_among_idle_ones(|_| UNKNOWN);
}

#[test]
fn idle_clients_hold_up_nobody_of_their_address() {
    fifty_among_idle_ones(|_| remote(1));
}
