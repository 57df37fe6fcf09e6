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

// type: held::Foo
#[inline(never)]
fn case_box_dyn() { let b: Box<dyn Speak> = Box::new(foo(one())); black_box(b.speak()); }

// type: ANY
#[inline(never)]
fn case_hash_map() { let mut m = HashMap::new(); m.insert(one(), 5u8); black_box(&m); }

// type: alloc::string::String
#[inline(never)]
fn case_vec_of_strings() { let v: Vec<String> = Vec::with_capacity(4 + one() as usize); black_box(&v); }

// type: held::Foo
#[inline(never)]
fn case_box_new() { black_box(Box::new(foo(one()))); }

// type: u16
#[inline(never)]
fn case_vec_clone() { static mut _X: u8 = 0; let v = [1u16, 2, 3].to_vec(); black_box(&v); }

// type: held::Shape
#[inline(never)]
fn case_vec_push() { let mut v = Vec::new(); v.push(Shape::Round(one() as f64)); black_box(&v); }

// type: u16
#[inline(never)]
fn case_vec_zeroed() { let v = vec![0u16; 50 + one() as usize]; black_box(&v); }

// type: alloc::sync::ArcInner<held::Foo>
#[inline(never)]
fn case_arc_new() { black_box(Arc::new(foo(one()))); }

// type: held::Shape
#[inline(never)]
fn case_box_enum() { black_box(Box::new(Shape::Square(one(), 2, 3))); }

// type: held::Foo
#[inline(never)]
fn case_box_default() { black_box(Box::<Foo>::from(foo(one()))); }

// type: ^held::case_closure::{
#[inline(never)]
fn case_closure() { let n = one(); let f = foo(n); let c: Box<dyn Fn() -> u64> = Box::new(move || f.a + n); black_box(c()); }

// type: u8
#[inline(never)]
fn case_string_push() { let mut s = String::new(); s.push_str(&"abc"[..one() as usize]); black_box(&s); }

// type: u8
#[inline(never)]
fn case_string_capacity() { let s = String::with_capacity(40 + one() as usize); black_box(&s); }

// type: [u64; 3]
#[inline(never)]
fn case_vec_macro() { let v = vec![one(), 2, 3]; black_box(&v); }

// type: (u8, held::Foo)
#[inline(never)]
fn case_vec_tuple() { let mut v = Vec::with_capacity(2); v.push((1u8, foo(one()))); black_box(&v); }

// type: u64
#[inline(never)]
fn case_box_u64() { black_box(Box::new(one())); }

// type: u32
#[inline(never)]
fn case_binary_heap() { let mut m = BinaryHeap::new(); m.push(one() as u32); black_box(&m); }

fn main() {
    for _ in 0..3 {
        case_box_dyn();
        case_hash_map();
        case_vec_of_strings();
        case_box_new();
        case_vec_clone();
        case_vec_push();
        case_vec_zeroed();
        case_arc_new();
        case_box_enum();
        case_box_default();
        case_closure();
        case_string_push();
        case_string_capacity();
        case_vec_macro();
        case_vec_tuple();
        case_box_u64();
        case_binary_heap();
    }
}
