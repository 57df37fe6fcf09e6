// An override was removed, so that the trait's default makes the label.
// BLAME label
use std::borrow::Cow;
use std::hint::black_box;

trait Metric {
    fn name(&self) -> &str;

    fn label(&self) -> Cow<'_, str> {
        Cow::Owned(["app_", self.name()].concat()) // MARK blame
    }
}

struct Requests;

impl Metric for Requests {
    fn name(&self) -> &str {
        "requests"
    }

    #[cfg(not(after))]
    fn label(&self) -> Cow<'_, str> {
        Cow::Borrowed("app_requests")
    }
}

struct Errors;

impl Metric for Errors {
    fn name(&self) -> &str {
        "errors"
    }
}

#[inline(never)]
fn scrape(metrics: &[Box<dyn Metric>]) -> usize {
    metrics.iter().map(|metric| metric.label().len()).sum()
}

fn main() {
    let metrics: [Box<dyn Metric>; 2] = [Box::new(Requests), Box::new(Errors)];
    let mut sum = 0;
    for _ in 0..400 {
        sum += scrape(black_box(&metrics));
    }
    black_box(sum);
}
