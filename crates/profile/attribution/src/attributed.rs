//! A profile with its attribution, as those who show it need it.

use allotrope_profile::Profile;
use allotrope_text::text_of_path;

use crate::glue::Glue;
use crate::headlines::Headlines;
use crate::suppressions::FrameText;

/// A profile, and whose code its frames are. Whoever reads a profile makes this once, when it is
/// known which part of it is shown; everything that shows it takes this.
#[derive(Debug, Clone)]
pub struct Attributed<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// Which frames head its stacks.
    pub headlines: Headlines,
}

impl<'a> Attributed<'a> {
    /// Looks at all frames and stacks of a profile.
    pub fn new(profile: &'a Profile, glue: &Glue) -> Self {
        Self {
            profile,
            headlines: Headlines::new(profile, glue),
        }
    }

    /// What rules of suppressions are matched against, of a frame.
    pub fn text(&self, index: u32) -> Option<FrameText<'a>> {
        let frame = self.profile.frames.get(index as usize)?;
        let module = self.profile.modules.get(frame.module as usize);
        let module = module.map(|it| text_of_path(&it.path)).unwrap_or_default();
        Some(FrameText::new(frame, module, self.headlines.origin(index)))
    }
}
