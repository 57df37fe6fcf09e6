-- What an application's database does: bulk insertion, indexes, joins,
-- grouping, text, updates. `:rows` says how many; in memory, nothing is read.
PRAGMA journal_mode = OFF;
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE sale (id INTEGER PRIMARY KEY, customer INTEGER, amount REAL, day TEXT, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO customer SELECT i, 'customer ' || i, 'city ' || (i * 7919 % 500) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows)
INSERT INTO sale SELECT i, 1 + i * 7907 % 20000, (i * 31 % 1000) / 10.0,
    date('2020-01-01', '+' || (i % 1500) || ' days'), 'note number ' || i || ' of many' FROM n;
CREATE INDEX sale_customer ON sale (customer);
CREATE INDEX sale_day ON sale (day, amount);
SELECT city, count(*), round(sum(amount), 1) FROM sale JOIN customer ON customer.id = customer
GROUP BY city ORDER BY 3 DESC LIMIT 5;
SELECT substr(day, 1, 7) AS month, count(DISTINCT customer), max(note) FROM sale
GROUP BY month ORDER BY month DESC LIMIT 5;
SELECT count(*), sum(length(replace(upper(note), 'NUMBER', 'NO.'))) FROM sale WHERE note LIKE '%9 of%';
UPDATE sale SET note = note || '; changed ' || day WHERE id % 3 = 0;
SELECT name, group_concat(DISTINCT substr(day, 1, 4)) FROM sale JOIN customer ON customer.id = customer
WHERE customer % 50 = 0 GROUP BY name ORDER BY name LIMIT 3;
SELECT sum(rank) FROM (SELECT row_number() OVER (PARTITION BY customer ORDER BY amount) AS rank FROM sale);
DELETE FROM sale WHERE id % 5 = 0;
