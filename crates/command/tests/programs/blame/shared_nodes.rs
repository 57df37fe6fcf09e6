// The tree's nodes became shared cells, where they lay in one vector.
// BLAME insert
use std::hint::black_box;

#[cfg(not(after))]
mod tree {
    #[derive(Default)]
    pub struct Tree {
        nodes: Vec<(u32, usize)>,
    }

    impl Tree {
        pub fn with_capacity(capacity: usize) -> Self {
            Self {
                nodes: Vec::with_capacity(capacity),
            }
        }

        #[inline(never)]
        pub fn insert(&mut self, key: u32) {
            let parent = self.nodes.len().saturating_sub(1);
            self.nodes.push((key, parent));
        }

        pub fn sum(&self) -> u64 {
            self.nodes.iter().map(|(key, _)| u64::from(*key)).sum()
        }
    }
}

#[cfg(after)]
mod tree {
    use std::cell::RefCell;
    use std::rc::Rc;

    pub struct Node {
        key: u32,
        parent: Option<Rc<RefCell<Node>>>,
    }

    pub struct Tree {
        last: Option<Rc<RefCell<Node>>>,
    }

    impl Tree {
        pub fn with_capacity(_: usize) -> Self {
            Self { last: None }
        }

        #[inline(never)]
        pub fn insert(&mut self, key: u32) {
            let parent = self.last.take();
            let node = Rc::new(RefCell::new(Node { key, parent })); // MARK blame
            self.last = Some(node);
        }

        pub fn sum(&self) -> u64 {
            let mut sum = 0;
            let mut next = self.last.clone();
            while let Some(node) = next {
                sum += u64::from(node.borrow().key);
                next = node.borrow().parent.clone();
            }
            sum
        }
    }
}

fn main() {
    let mut tree = tree::Tree::with_capacity(500);
    for key in 0..500 {
        tree.insert(black_box(key));
    }
    black_box(tree.sum());
}
