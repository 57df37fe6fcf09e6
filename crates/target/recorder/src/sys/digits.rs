//! Text with numbers in a fixed buffer, without an allocation.

/// Writes decimal numbers and text into a buffer.
pub struct Digits<'b> {
    /// The buffer.
    pub bytes: &'b mut [u8],
    /// Bytes written.
    pub used: usize,
}

impl Digits<'_> {
    /// Appends text, as far as it fits.
    pub fn text(&mut self, text: &[u8]) {
        for byte in text {
            if let Some(place) = self.bytes.get_mut(self.used) {
                *place = *byte;
                self.used += 1;
            }
        }
    }

    /// Appends a number in decimal.
    pub fn number(&mut self, number: u64) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.text(&[b'0' + (number % 10) as u8]);
    }

    /// Appends a number in lower-case hexadecimal.
    #[cfg(feature = "verify")]
    pub fn hexadecimal(&mut self, number: u64) {
        if number >= 16 {
            self.hexadecimal(number / 16);
        }
        self.text(&[b"0123456789abcdef"[(number % 16) as usize]]);
    }
}
