//! Blocks whose types are known, for `block_types.rs`. Above each function that allocates stands the
//! type of its blocks; of several sizes, `type@size`, separated by `|`; `^` before the start of a
//! type. `tuned` has the cases that the rules were made with, `held` those that were set aside.
#![allow(dead_code)]
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::hint::black_box;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

pub struct Foo { a: u64, b: [u8; 40] }
pub struct Wide<T> { t: T, n: u32 }
pub enum Shape { Round(f64), Square(u64, u64, u64) }
pub trait Speak { fn speak(&self) -> u64; }
impl Speak for Foo { fn speak(&self) -> u64 { self.a + self.b[3] as u64 } }
fn foo(n: u64) -> Foo { Foo { a: n, b: [n as u8; 40] } }
fn one() -> u64 { std::hint::black_box(1) }

// type: u64
#[inline(never)]
fn case_vec_collect() { let v: Vec<u64> = (0..100 + one()).collect(); black_box(&v); }

// type: tuned::Wide<u16>
#[inline(never)]
fn case_box_generic() { black_box(Box::new(Wide { t: one() as u16, n: 2 })); }

// type: u8
#[inline(never)]
fn case_string_format() { let s = format!("hello {}", one()); black_box(&s); }

// type: u32
#[inline(never)]
fn case_boxed_slice() { let s: Box<[u32]> = vec![one() as u32; 9].into_boxed_slice(); black_box(&s); }

// type: tuned::Foo
#[inline(never)]
fn case_vec_capacity() { let v: Vec<Foo> = Vec::with_capacity(3 + one() as usize); black_box(&v); }

// type: alloc::rc::RcInner<tuned::Foo>
#[inline(never)]
fn case_rc_new() { black_box(Rc::new(foo(one()))); }

// type: alloc::rc::RcInner<core::cell::RefCell<u32>>
#[inline(never)]
fn case_rc_cell() { black_box(Rc::new(RefCell::new(one() as u32))); }

// type: u32
#[inline(never)]
fn case_vec_filled() { let v = vec![one() as u32; 50]; black_box(&v); }

// type: u8
#[inline(never)]
fn case_string_from() { let s = String::from_utf8_lossy(&[b'a'; 30]).to_string(); black_box(&s); }

// type: i128
#[inline(never)]
fn case_vec_reserve() { let mut v: Vec<i128> = Vec::new(); v.reserve(5 + one() as usize); black_box(&v); }

// type: [u32; 12]
#[inline(never)]
fn case_box_array() { black_box(Box::new([one() as u32; 12])); }

// type: ^alloc::collections::linked_list::Node<
#[inline(never)]
fn case_linked_list() { let mut m = LinkedList::new(); m.push_back(foo(one())); black_box(&m); }

// type: ANY
#[inline(never)]
fn case_rc_str() { let s: Rc<str> = Rc::from("abcdef"); black_box(&s); }

// type: tuned::Foo
#[inline(never)]
fn case_vec_deque() { let mut m = VecDeque::new(); m.push_back(foo(one())); black_box(&m); }

// type: u64
#[inline(never)]
fn case_vec_filter_collect() { let v: Vec<u64> = (0..100 + one()).filter(|x| x % 3 == 0).collect(); black_box(&v); }

// type: ^alloc::collections::btree::node::
#[inline(never)]
fn case_btree_map() { let mut m = BTreeMap::new(); m.insert(one(), foo(1)); black_box(&m); }

// type: ANY
#[inline(never)]
fn case_hash_set() { let mut m = HashSet::new(); m.insert(one()); black_box(&m); }

fn main() {
    for _ in 0..3 {
        case_vec_collect();
        case_box_generic();
        case_string_format();
        case_boxed_slice();
        case_vec_capacity();
        case_rc_new();
        case_rc_cell();
        case_vec_filled();
        case_string_from();
        case_vec_reserve();
        case_box_array();
        case_linked_list();
        case_rc_str();
        case_vec_deque();
        case_vec_filter_collect();
        case_btree_map();
        case_hash_set();
    }
}
