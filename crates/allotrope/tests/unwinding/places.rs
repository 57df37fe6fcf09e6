//! More code than the recorder can know by number at a time.

use crate::building::c;
use crate::truth;

#[test]
fn more_return_addresses_than_there_are_numbers() {
    truth::check(&c("many_places.c"), "");
}
