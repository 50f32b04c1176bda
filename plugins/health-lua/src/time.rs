//! Dates as Go has them: what scripts get from `os.time` and `os.date`. The zone is always UTC, as in a container without
//! another one.

const DAY: i64 = 86_400;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// A moment, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    pub year: i64,
    /// From 1.
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// From 0, Sunday.
    pub weekday: i64,
}

/// Seconds since the epoch. Any field may lie outside of its usual range: month 13 is January of the next year.
pub fn seconds(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: i64) -> i64 {
    // What does not fit is no time that anyone compares with.
    let months = month.clamp(-100_000_000_000, 100_000_000_000) - 1;
    let year = year.clamp(-10_000_000_000, 10_000_000_000) + months.div_euclid(12);
    let month = months.rem_euclid(12) + 1;
    days(year, month)
        .saturating_add(day.saturating_sub(1))
        .saturating_mul(DAY)
        .saturating_add(hour.saturating_mul(3600))
        .saturating_add(minute.saturating_mul(60))
        .saturating_add(second)
}

/// Days from the epoch to the first of a month. Years begin in March here, so that leap days come last.
fn days(year: i64, month: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

impl Date {
    pub fn of(seconds: i64) -> Date {
        let day_number = seconds.div_euclid(DAY);
        let of_day = seconds.rem_euclid(DAY);
        let shifted = day_number + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let month = (shifted_month + 2) % 12 + 1;
        Date {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            weekday: (day_number + 4).rem_euclid(7),
        }
    }

    /// As `os.date` writes it. The letters are those that Argo CD's `os.date` knows, some of which mean other things than in
    /// C: `%a` is `mon` on every day, and `%x` a time.
    pub fn format(&self, format: &str) -> String {
        let Date {
            year,
            month,
            day,
            hour,
            minute,
            second,
            weekday,
        } = *self;
        let month_name = name(&MONTHS, month - 1);
        let short_month = month_name.get(..3).unwrap_or_default();
        let short_year = year.max(0) % 100;
        let long_year = format!("{}{:04}", if year < 0 { "-" } else { "" }, year.abs());
        let half = (hour + 11) % 12 + 1;
        let mut text = String::new();
        let mut rest = format.chars();
        while let Some(next) = rest.next() {
            if next != '%' {
                text.push(next);
                continue;
            }
            let Some(letter) = rest.next() else {
                text.push('%');
                break;
            };
            text.push_str(&match letter {
                'a' => "mon".to_owned(),
                'A' => name(&WEEKDAYS, weekday).to_owned(),
                'b' => short_month.to_owned(),
                'B' => month_name.to_owned(),
                'c' => format!("{day:02} {short_month} {short_year:02} {hour:02}:{minute:02} UTC"),
                'd' => format!("{day:02}"),
                'F' => format!("{long_year}-{month:02}-{day:02}"),
                'H' => format!("{hour:02}"),
                'I' => format!("{half:02}"),
                'm' => format!("{month:02}"),
                'M' => format!("{minute:02}"),
                'p' => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
                'P' => (if hour < 12 { "am" } else { "pm" }).to_owned(),
                'S' => format!("{second:02}"),
                'x' => format!("{hour:02}/{minute:02}/{second:02}"),
                'X' => format!("{hour:02}:{minute:02}:{second:02}"),
                'y' => format!("{short_year:02}"),
                'Y' => long_year.clone(),
                'z' => "+0000".to_owned(),
                'Z' => "UTC".to_owned(),
                'w' => weekday.to_string(),
                '%' => "%".to_owned(),
                other => format!("%{other}"),
            });
        }
        text
    }
}

fn name(names: &[&'static str], at: i64) -> &'static str {
    usize::try_from(at)
        .ok()
        .and_then(|at| names.get(at).copied())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_both_ways() {
        for (date, wanted) in [
            ((1970, 1, 1, 0, 0, 0), 0),
            ((2026, 2, 28, 12, 30, 15), 1_772_281_815),
            ((2024, 2, 29, 0, 0, 0), 1_709_164_800),
            ((1969, 12, 31, 23, 59, 59), -1),
        ] {
            let (year, month, day, hour, minute, second) = date;
            assert_eq!(seconds(year, month, day, hour, minute, second), wanted);
            let back = Date::of(wanted);
            assert_eq!(
                (
                    back.year,
                    back.month,
                    back.day,
                    back.hour,
                    back.minute,
                    back.second
                ),
                date
            );
        }
        // Fields carry over, as Go's do.
        assert_eq!(seconds(2025, 13, 1, 0, 0, 0), seconds(2026, 1, 1, 0, 0, 0));
        assert_eq!(seconds(2026, 3, 0, 25, 0, 0), seconds(2026, 3, 1, 1, 0, 0));
        assert_eq!(seconds(-1, -1, -1, 12, 0, 0), -62_204_155_200);
        assert_eq!(Date::of(1_772_281_815).weekday, 6);
    }

    #[test]
    fn the_days_of_four_centuries_come_back() {
        for day in (-150_000..20_000).step_by(7) {
            let date = Date::of(day * DAY);
            assert_eq!(seconds(date.year, date.month, date.day, 0, 0, 0), day * DAY);
        }
    }

    #[test]
    fn letters_are_argo_cds() {
        let date = Date::of(1_772_281_815);
        for (format, wanted) in [
            ("%c", "28 Feb 26 12:30 UTC"),
            ("%Y-%m-%dT%H:%M:%SZ", "2026-02-28T12:30:15Z"),
            ("%a %A %b %B", "mon Saturday Feb February"),
            ("%x %X %I%p%P %y %w", "12/30/15 12:30:15 12PMpm 26 6"),
            ("%F %z %Z 100%% %q", "2026-02-28 +0000 UTC 100% %q"),
        ] {
            assert_eq!(date.format(format), wanted);
        }
    }
}
