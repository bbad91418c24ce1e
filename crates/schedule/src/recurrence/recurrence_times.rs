//! The times of a rule within a day, an hour or a minute, in order. The times are stored as masks
//! of hours, minutes and seconds, or as a list that `BYSETPOS` selected.

/// The times of a period, in seconds from the start of the period, in order.
#[derive(Debug)]
pub(super) enum RuleTimes {
    /// All times with an hour, a minute and a second from these masks. Bit n means the number n.
    Clock { hours: u64, minutes: u64, seconds: u64 },
    /// The times that this list names, in seconds.
    List(Vec<i64>),
}

impl RuleTimes {
    /// Returns the number of times in this set.
    pub(super) fn count(&self) -> i64 {
        match self {
            Self::Clock { hours, minutes, seconds } => [hours, minutes, seconds]
                .into_iter()
                .map(|mask| i64::from(mask.count_ones()))
                .product(),
            Self::List(list) => i64::try_from(list.len()).unwrap_or(i64::MAX),
        }
    }

    /// Returns the time at `index`, counted from 0, or `None` if there is no such time.
    pub(super) fn nth(&self, index: i64) -> Option<i64> {
        match self {
            Self::Clock { .. } if index < 0 => None,
            Self::Clock { hours, minutes, seconds } => {
                let (of_minute, of_hour) =
                    (i64::from(seconds.count_ones()), i64::from(minutes.count_ones()));
                let minute = index.checked_div(of_minute)?;
                let hour = bit(*hours, minute.checked_div(of_hour)?)?;
                Some(
                    hour * 3_600
                        + bit(*minutes, minute % of_hour)? * 60
                        + bit(*seconds, index % of_minute)?,
                )
            }
            Self::List(list) => list.get(usize::try_from(index).ok()?).copied(),
        }
    }

    /// Returns the first time that is not before `second`, both in seconds from the start of the
    /// period. Returns `None` if there is none.
    pub(super) fn first_from(&self, second: i64) -> Option<i64> {
        let second = second.max(0);
        match self {
            Self::Clock { hours, minutes, seconds } => {
                let (hour, minute, rest) = (second / 3_600, second / 60 % 60, second % 60);
                if has(*hours, hour) {
                    if has(*minutes, minute)
                        && let Some(found) = from(*seconds, rest)
                    {
                        return Some(hour * 3_600 + minute * 60 + found);
                    }
                    if let Some(found) = from(*minutes, minute + 1) {
                        return Some(hour * 3_600 + found * 60 + from(*seconds, 0)?);
                    }
                }
                Some(from(*hours, hour + 1)? * 3_600 + from(*minutes, 0)? * 60 + from(*seconds, 0)?)
            }
            Self::List(list) => list.get(list.partition_point(|at| *at < second)).copied(),
        }
    }

    /// Counts the times of this set that are before `second`, which is in seconds from the start of
    /// the period.
    pub(super) fn count_before(&self, second: i64) -> i64 {
        let Some(found) = self.first_from(second) else { return self.count() };
        match self {
            Self::Clock { hours, minutes, seconds } => {
                let below =
                    |mask: u64, value: i64| i64::from((mask & ((1 << value) - 1)).count_ones());
                let (of_minute, of_hour) =
                    (i64::from(seconds.count_ones()), i64::from(minutes.count_ones()));
                let hours = below(*hours, found / 3_600);
                (hours * of_hour + below(*minutes, found / 60 % 60)) * of_minute
                    + below(*seconds, found % 60)
            }
            Self::List(list) => {
                i64::try_from(list.partition_point(|at| *at < second)).unwrap_or(i64::MAX)
            }
        }
    }

    /// Returns the times at `positions`: 1 is the first time, -1 is the last time. Returns all
    /// times if `positions` is empty.
    pub(super) fn at_positions(self, positions: &[i64]) -> Self {
        if positions.is_empty() {
            return self;
        }
        let count = self.count();
        let index = |position: i64| if position > 0 { position - 1 } else { count + position };
        let mut list: Vec<i64> =
            positions.iter().filter_map(|position| self.nth(index(*position))).collect();
        list.sort_unstable();
        list.dedup();
        Self::List(list)
    }
}

fn has(mask: u64, value: i64) -> bool {
    (0..64).contains(&value) && mask >> value & 1 == 1
}

/// Returns the number of the lowest set bit in `mask` that is at least `least`, or `None`.
fn from(mask: u64, least: i64) -> Option<i64> {
    let rest = if least > 63 { 0 } else { mask >> least << least };
    (rest != 0).then(|| i64::from(rest.trailing_zeros()))
}

/// Returns the number of the set bit of `mask` at `index`, counted from 0 for the lowest set bit.
/// Returns `None` if `mask` has fewer set bits.
fn bit(mut mask: u64, index: i64) -> Option<i64> {
    for _ in 0..index {
        mask &= mask.checked_sub(1)?;
    }
    from(mask, 0)
}
