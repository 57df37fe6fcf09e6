// The fetching returns a boxed future, because a trait wants it so.
// BLAME fetch
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

#[cfg(not(after))]
async fn fetch(id: u64) -> u64 {
    let page = load(id).await;
    page + load(page).await
}

#[cfg(after)]
#[inline(never)]
fn fetch(id: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    let twice = async move {
        let page = load(id).await;
        page + load(page).await
    };
    Box::pin(twice) // MARK blame
}

async fn load(id: u64) -> u64 {
    black_box(id) * 2
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let pinned: Pin<&mut F> = future.as_mut();
        if let Poll::Ready(output) = pinned.poll(&mut context) {
            return output;
        }
    }
}

fn main() {
    let mut sum = 0;
    for id in 0..500 {
        sum += block_on(fetch(id));
    }
    black_box(sum);
}
