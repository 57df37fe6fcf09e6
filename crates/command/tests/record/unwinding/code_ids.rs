//! More return addresses than there are code ids (the unwinder's 16-bit numbers of
//! code addresses): its rule cache is emptied in between.

use crate::unwinding::building::c;
use crate::unwinding::truth;

#[test]
fn more_return_addresses_than_code_ids() {
    truth::check(&c("many_addresses.c"), "");
}
