//! A generated query: its parts, how it is asked, and its text over one table or the other.

/// How a query is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Plain,
    /// As a prepared statement with parameters.
    Prepared,
    /// Once for each row of another query, with that row's value.
    Rescanned,
    /// Twice, below a set operation.
    Twice,
    /// As a table expression that is read twice.
    Materialized,
    /// Below an aggregate.
    Counted,
    /// Whether it has a row.
    Exists,
    /// By a cursor, in parts, and backward.
    Fetched,
    /// In a transaction after changes of its own, and again when these are rolled back.
    Changed,
    /// In a loop of PL/pgSQL, whose body fails for some rows, in a subtransaction.
    Looped,
}

/// The parameters of prepared statements.
pub(super) const PARAMETERS: &str = "int4, text, numeric";

/// A query of one table, whose name is given when it is asked.
pub struct Query {
    pub(super) returned: String,
    pub(super) conjuncts: Vec<String>,
    /// What follows the filter.
    pub(super) rest: String,
    pub(super) way: Way,
    /// What the transaction does before, if it changes the table.
    pub(super) changes: String,
}

impl Query {
    /// The text of the query over a table.
    #[must_use]
    pub fn of(&self, table: &str) -> String {
        self.asked(table, &self.plain(table))
    }

    /// What is explained to learn how the query is planned.
    #[must_use]
    pub fn explained(&self, table: &str) -> String {
        match self.way {
            Way::Changed | Way::Looped => self.plain(table),
            Way::Fetched => format!("DECLARE c SCROLL CURSOR FOR {}", self.plain(table)),
            _ => self.of(table),
        }
    }

    fn plain(&self, table: &str) -> String {
        let filter = match self.conjuncts.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", self.conjuncts.join(" AND ")),
        };
        format!("SELECT {} FROM {table}{filter}{}", self.returned, self.rest)
    }

    /// The same where nothing ends it early: PostgreSQL's nodes may not reach the row of an error.
    #[must_use]
    pub fn to_the_end(&self) -> Query {
        let rest = self.rest.split(" LIMIT ").next().unwrap_or_default();
        Query {
            returned: self.returned.clone(),
            conjuncts: self.conjuncts.clone(),
            rest: rest.to_owned(),
            way: match self.way {
                Way::Exists => Way::Plain,
                way => way,
            },
            changes: self.changes.clone(),
        }
    }

    fn asked(&self, table: &str, query: &str) -> String {
        match self.way {
            Way::Plain | Way::Prepared => query.to_owned(),
            Way::Rescanned => format!(
                "SELECT g.p, s.* FROM (VALUES (3), (NULL), (0), (60), (3)) g (p), LATERAL ({query}) s"
            ),
            Way::Twice => format!("({query}) UNION ALL ({query})"),
            Way::Materialized => {
                format!("WITH c AS MATERIALIZED ({query}) TABLE c UNION ALL TABLE c")
            }
            Way::Counted => format!("SELECT count(*), count(s) FROM ({query}) s"),
            Way::Exists => format!("SELECT EXISTS ({query}), NOT EXISTS ({query})"),
            Way::Fetched => format!(
                "BEGIN; DECLARE c SCROLL CURSOR FOR {query}; FETCH 3 FROM c; SAVEPOINT a;
                 FETCH 200 FROM c; ROLLBACK TO a; FETCH ALL FROM c; FETCH BACKWARD ALL FROM c;
                 FETCH ALL FROM c; COMMIT"
            ),
            Way::Changed => format!(
                "BEGIN; SAVEPOINT a; SET LOCAL howdah.load_threshold = 5; {}; {query};
                 ROLLBACK TO a; {query}; ROLLBACK",
                self.changes.replace('@', table)
            ),
            Way::Looped => format!("SELECT looped($query${query}$query$)"),
        }
    }

    /// The query over heap; conjuncts that can raise an error see the rows that pass the others.
    #[must_use]
    pub fn with_errors_last(&self) -> String {
        let can_fail = |text: &&String| {
            [" + ", " - ", " * ", " / ", " % "]
                .iter()
                .any(|op| text.contains(op))
        };
        let (last, first): (Vec<&String>, Vec<&String>) = self.conjuncts.iter().partition(can_fail);
        let join = |all: Vec<&String>| match all.is_empty() {
            true => "true".to_owned(),
            false => all.into_iter().cloned().collect::<Vec<_>>().join(" AND "),
        };
        let query = format!(
            "SELECT {} FROM (SELECT * FROM h WHERE {} OFFSET 0) h WHERE {}{}",
            self.returned,
            join(first),
            join(last),
            self.rest
        );
        self.asked("h", &query)
    }
}
