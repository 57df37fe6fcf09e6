// An enum of shapes became boxed trait objects.
// BLAME parse
use std::hint::black_box;

#[cfg(not(after))]
enum Shape {
    Circle(f64),
    Rectangle(f64, f64),
}

#[cfg(not(after))]
impl Shape {
    fn area(&self) -> f64 {
        match self {
            Shape::Circle(radius) => 3.14 * radius * radius,
            Shape::Rectangle(width, height) => width * height,
        }
    }
}

#[cfg(after)]
trait Area {
    fn area(&self) -> f64;
}

#[cfg(after)]
type Shape = Box<dyn Area>;

#[cfg(after)]
struct Circle(f64);

#[cfg(after)]
impl Area for Circle {
    fn area(&self) -> f64 {
        3.14 * self.0 * self.0
    }
}

#[cfg(after)]
struct Rectangle(f64, f64);

#[cfg(after)]
impl Area for Rectangle {
    fn area(&self) -> f64 {
        self.0 * self.1
    }
}

#[cfg(not(after))]
#[inline(never)]
fn parse(kind: u8, size: f64) -> Shape {
    if kind == b'c' {
        return Shape::Circle(size);
    }
    Shape::Rectangle(size, 2.0 * size)
}

#[cfg(after)]
#[inline(never)]
fn parse(kind: u8, size: f64) -> Shape {
    if kind == b'c' {
        return Box::new(Circle(size));
    }
    Box::new(Rectangle(size, 2.0 * size)) // MARK blame
}

fn main() {
    let mut area = 0.0;
    for at in 0..900 {
        let kind = if at % 9 == 0 { b'c' } else { b'r' };
        area += black_box(parse(kind, f64::from(at))).area();
    }
    black_box(area);
}
