//! The model: call stacks, their metrics, the peak, lifetimes.
