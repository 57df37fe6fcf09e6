//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::live::{Action, AtEnd, MAX_TYPED, Screen, Sort, View};

impl View {
    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Option<Action> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Action::Quit(self.at_end)),
                KeyCode::Char('z') => Some(Action::Suspend),
                _ => None,
            };
        }
        self.status.clear();
        self.quiet = 0;
        if self.is_filtering {
            self.filter_key(key.code);
            return None;
        }
        match &mut self.screen {
            Screen::Table => return self.table_key(key.code),
            Screen::Help => self.screen = Screen::Table,
            Screen::Stack(line) => match key.code {
                KeyCode::Down | KeyCode::Char('j') => *line = line.saturating_add(1),
                KeyCode::Up | KeyCode::Char('k') => *line = line.saturating_sub(1),
                KeyCode::PageDown => *line = line.saturating_add(10),
                KeyCode::PageUp => *line = line.saturating_sub(10),
                _ => {
                    self.screen = Screen::Table;
                    self.keep_selection();
                }
            },
            Screen::Quit => {
                let answer = match key.code {
                    KeyCode::Enter => self.at_end,
                    KeyCode::Char('e') if self.at_end == AtEnd::Stop => AtEnd::Stop,
                    KeyCode::Char('r') if self.at_end != AtEnd::Stop => AtEnd::Restore,
                    KeyCode::Char('l') => AtEnd::Leave,
                    KeyCode::Char('o') => AtEnd::Off,
                    _ => {
                        self.screen = Screen::Table;
                        return None;
                    }
                };
                return Some(Action::Quit(answer));
            }
            Screen::Processes(place) => {
                let most = self.processes.len().saturating_sub(1);
                match key.code {
                    KeyCode::Down | KeyCode::Char('j') => *place = (*place + 1).min(most),
                    KeyCode::Up | KeyCode::Char('k') => *place = place.saturating_sub(1),
                    KeyCode::Char(' ') | KeyCode::Enter => {
                        let place = *place;
                        let is_other = self.choose(place);
                        if is_other {
                            self.begin_anew();
                        }
                        return is_other.then_some(Action::Choose);
                    }
                    _ => self.screen = Screen::Table,
                }
            }
            Screen::SaveAs(name) => match key.code {
                KeyCode::Enter => {
                    let name = std::mem::take(name);
                    self.screen = Screen::Table;
                    return (!name.is_empty()).then_some(Action::Save(name));
                }
                KeyCode::Esc => self.screen = Screen::Table,
                KeyCode::Backspace => drop(name.pop()),
                KeyCode::Char(c) if name.chars().count() < MAX_TYPED => name.push(c),
                _ => {}
            },
        }
        None
    }

    /// Chooses a process, or removes it; returns whether that was possible. One always stays.
    fn choose(&mut self, place: usize) -> bool {
        let Some((process, _)) = self.processes.get(place) else {
            return false;
        };
        let process = *process;
        if self.unchosen.remove(&process) {
            return true;
        }
        let can = self.unchosen.len() + 1 < self.processes.len();
        match can {
            true => self.unchosen.insert(process),
            false => {
                self.status = "one process stays chosen".to_owned();
                false
            }
        }
    }

    fn filter_key(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.is_filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.chars().count() < MAX_TYPED => self.filter.push(c),
            _ => {}
        }
        self.keep_selection();
    }

    fn table_key(&mut self, key: KeyCode) -> Option<Action> {
        match key {
            KeyCode::Char('q') if self.ended.is_some() => return Some(Action::Quit(self.at_end)),
            KeyCode::Char('q') => self.screen = Screen::Quit,
            KeyCode::Char('?' | 'h') => self.screen = Screen::Help,
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Sort::Live => Sort::Growth,
                    Sort::Growth => Sort::Age,
                    Sort::Age => Sort::Samples,
                    Sort::Samples => Sort::Live,
                };
                self.sort_sites();
            }
            KeyCode::Char('p') => self.screen = Screen::Processes(0),
            KeyCode::Home => {
                self.sort_sites();
                self.move_selection(isize::MIN);
            }
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Char('m') => return Some(Action::Mark),
            KeyCode::Char('w') => self.screen = Screen::SaveAs("live.allotrope".to_owned()),
            KeyCode::Char('i') => {
                if let Some(key) = self.selection().map(|(_, it)| it.key) {
                    self.move_selection(1);
                    self.ignored.insert(key);
                    self.keep_selection();
                }
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.keep_selection();
            }
            KeyCode::Enter if self.selection().is_some() => self.screen = Screen::Stack(0),
            KeyCode::Down | KeyCode::Char('j') => self.move_selection(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_selection(-1),
            KeyCode::PageDown => self.move_selection(10),
            KeyCode::PageUp => self.move_selection(-10),
            _ => {}
        }
        None
    }
}
