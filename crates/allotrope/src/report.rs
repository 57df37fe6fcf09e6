//! stub
use crate::exit_status::Failure;
/// x
pub const AFTER_HELP: &str = "";
/// x
#[derive(Debug, clap::Args)]
pub struct Arguments {}
/// x
pub fn run(_: &Arguments) -> Result<u8, Failure> {
    todo!()
}
