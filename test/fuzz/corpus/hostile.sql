-- Statements that must be refused, or do nothing to what is the service's. One to a line; lines of comment are skipped.
-- Reserved tables, however they are named
SELECT * FROM __service_kv
SELECT * FROM "__service_kv"
SELECT * FROM [__service_kv]
SELECT * FROM `__service_kv`
SELECT * FROM '__service_kv'
SELECT * FROM __SERVICE_KV
SELECT * FROM main.__service_kv
SELECT * FROM "main"."__service_kv"
SELECT * FROM main . /* x */ '__service_kv'
SELECT * FROM/**/__service_kv
SELECT * FROM sqlite_master, '__service_kv'
SELECT * FROM (('__service_kv'))
SELECT * FROM sqlite_master JOIN '__service_kv'
SELECT * FROM sqlite_master LEFT JOIN "__service_kv" ON 1
SELECT (SELECT value FROM '__service_kv')
SELECT EXISTS(SELECT 1 FROM "__service_kv")
SELECT count(*) FROM '__service_kv'
SELECT 1 IN '__service_kv'
SELECT 1 IN __service_kv
SELECT 1 IN main."__service_kv"
WITH x AS (SELECT * FROM '__service_kv') SELECT * FROM x
WITH x AS (SELECT * FROM sqlite_master, '__service_kv' k) SELECT k FROM x
WITH __service_kv AS (SELECT 1) SELECT * FROM __service_kv
SELECT * FROM sqlite_master UNION ALL SELECT * FROM '__service_state'
VALUES ((SELECT value FROM __service_kv))
INSERT INTO __service_kv (ns, key, value) VALUES ('n', 'k', x'00')
INSERT INTO '__service_kv' (ns, key, value) VALUES ('n', 'k', x'00')
REPLACE INTO "__service_kv" (row, ns, key, value) VALUES (1, 'n', 'k', x'00')
INSERT OR IGNORE INTO [__service_kv] (ns, key, value) VALUES ('n', 'k', x'00')
UPDATE __service_state SET txid = 99
UPDATE OR REPLACE '__service_state' SET txid = 99
UPDATE "__service_kv" SET value = x'' RETURNING value
DELETE FROM `__service_kv`
DELETE FROM main.'__service_kv' RETURNING *
WITH x AS (SELECT 1) DELETE FROM "__service_kv"
DROP TABLE __service_kv
DROP TABLE IF EXISTS '__service_kv'
DROP INDEX __service_kv_expiry
DROP INDEX "sqlite_autoindex___service_kv_1"
ALTER TABLE __service_kv RENAME TO mine
ALTER TABLE '__service_kv' ADD COLUMN x
ALTER TABLE "__service_kv" DROP COLUMN value
ALTER TABLE t RENAME TO __service_mine
ALTER TABLE t RENAME TO '__service_mine'
ALTER TABLE t RENAME TO "__service"
ALTER TABLE t RENAME TO json_each
ALTER TABLE t ADD COLUMN r REFERENCES "__service_kv"(row)
CREATE TABLE __service_new (a)
CREATE TABLE '__service_new' (a)
CREATE TABLE IF NOT EXISTS "__service_new" (a)
CREATE TABLE main.[__service_new] (a)
CREATE TABLE mine AS SELECT * FROM '__service_kv'
CREATE TABLE mine (a REFERENCES __service_kv(row))
CREATE TABLE mine (a, FOREIGN KEY (a) REFERENCES '__service_kv' (row) ON DELETE CASCADE)
CREATE INDEX mine ON __service_kv (value)
CREATE INDEX mine ON '__service_kv' (value)
CREATE INDEX __service_i ON t (a)
CREATE UNIQUE INDEX IF NOT EXISTS mine ON "__service_kv" (value)
CREATE VIEW mine AS SELECT * FROM __service_kv
CREATE VIEW mine AS SELECT * FROM t, '__service_kv'
CREATE VIEW __service_v AS SELECT 1
CREATE TRIGGER mine AFTER INSERT ON __service_kv BEGIN SELECT 1; END
CREATE TRIGGER mine AFTER INSERT ON '__service_kv' BEGIN SELECT 1; END
CREATE TRIGGER __service_t AFTER INSERT ON t BEGIN SELECT 1; END
CREATE TRIGGER mine AFTER INSERT ON t BEGIN DELETE FROM __service_kv; END
CREATE TRIGGER mine AFTER INSERT ON t BEGIN DELETE FROM '__service_kv'; END
CREATE TRIGGER mine AFTER INSERT ON t BEGIN INSERT INTO t SELECT value FROM t, '__service_kv'; END
CREATE TRIGGER mine AFTER INSERT ON t BEGIN UPDATE t SET a = (SELECT value FROM "__service_kv"); END
-- Virtual tables
CREATE VIRTUAL TABLE mine USING fts5(value, content='__service_kv')
CREATE VIRTUAL TABLE mine USING fts5(value, content="__service_kv")
CREATE VIRTUAL TABLE mine USING fts5(value, content=__service_kv, content_rowid=row)
CREATE VIRTUAL TABLE mine USING fts5(value, content='main.__service_kv')
CREATE VIRTUAL TABLE mine USING fts5(a, content='', prefix='1', tokenize='__service_x')
CREATE VIRTUAL TABLE __service USING fts5(a)
CREATE VIRTUAL TABLE "__service" USING rtree(id, a, b)
CREATE VIRTUAL TABLE __service_f USING fts5(a)
CREATE VIRTUAL TABLE mine USING fts5vocab('__service_memory_text', 'row')
CREATE VIRTUAL TABLE mine USING fts5vocab(main, "__service_memory_text", instance)
CREATE VIRTUAL TABLE mine USING fts3(a)
CREATE VIRTUAL TABLE mine USING fts4(a, content="__service_kv")
CREATE VIRTUAL TABLE mine USING fts4aux(__service_memory_text)
CREATE VIRTUAL TABLE mine USING fts3tokenize
CREATE VIRTUAL TABLE mine USING dbstat
CREATE VIRTUAL TABLE mine USING geopoly(a)
CREATE VIRTUAL TABLE mine USING "fts3"(tokenize=x)
CREATE VIRTUAL TABLE temp.mine USING fts5(a)
CREATE VIRTUAL TABLE mine USING csv(filename='/etc/passwd')
CREATE VIRTUAL TABLE mine
SELECT * FROM dbstat
SELECT * FROM "dbstat"
SELECT * FROM 'dbstat'
SELECT * FROM fts3tokenize('simple', 'a b')
SELECT * FROM fts5vocab
SELECT * FROM sqlite_dbpage
SELECT * FROM bytecode('SELECT 1')
SELECT fts3_tokenizer('simple')
SELECT fts3_tokenizer('x', x'4141414141414141')
SELECT load_extension('/tmp/x.so')
SELECT writefile('/tmp/x', 'y'), readfile('/etc/passwd')
SELECT edit('x')
SELECT rtreecheck('main', '__service_kv')
SELECT rtreenode(2, x'00')
SELECT rtreedepth(x'00')
SELECT sqlite_log(1, 'x')
SELECT sqlite_compileoption_get(1)
SELECT sqlite_rename_table(1, 2, 3, 4, 5, 6, 7)
SELECT fts5(1)
SELECT json_pretty('[1]')
SELECT guard_leave(1), guard_enter(1, 1, 0, 0), guard_detach(1)
SELECT "load_extension"('x')
-- Table functions and pragmas that tell about reserved tables
SELECT * FROM pragma_table_info('__service_kv')
SELECT * FROM pragma_table_info('__serv' || 'ice_kv')
SELECT * FROM pragma_table_info(replace('__x_kv', 'x', 'service'))
SELECT * FROM pragma_table_info WHERE arg = '__ser' || 'vice_kv'
SELECT * FROM "pragma_table_xinfo"('__SERVICE_kv')
SELECT * FROM pragma_index_list('__serv' || 'ice_kv')
SELECT * FROM pragma_index_info('sqlite_autoindex_' || '__service_kv_1')
SELECT * FROM pragma_foreign_key_list('__serv' || 'ice_kv')
SELECT * FROM pragma_integrity_check
SELECT * FROM pragma_quick_check('__serv' || 'ice_kv')
SELECT * FROM pragma_foreign_key_check
SELECT * FROM pragma_table_list
SELECT * FROM pragma_database_list
SELECT * FROM pragma_journal_mode
SELECT * FROM pragma_wal_checkpoint
SELECT * FROM pragma_page_count, pragma_secure_delete
PRAGMA table_info(__service_kv)
PRAGMA table_info("__service_kv")
PRAGMA table_info('__service_kv')
PRAGMA table_info([__SERVICE_KV])
PRAGMA main.table_xinfo(`__service_kv`)
PRAGMA index_list(__service_kv)
PRAGMA index_info(sqlite_autoindex___service_kv_1)
PRAGMA foreign_key_list(__service_memory)
PRAGMA integrity_check(__service_kv)
PRAGMA foreign_key_check(__service_kv)
PRAGMA table_list
PRAGMA table_list = t
-- Pragmas that set, in any dress
PRAGMA wal_autocheckpoint = 1
PRAGMA wal_autocheckpoint(1)
PRAGMA journal_mode = DELETE
PRAGMA journal_mode(off)
PRAGMA main.journal_mode = memory
PRAGMA "journal_mode" = 'delete'
PRAGMA/**/synchronous/**/=/**/OFF
PRAGMA synchronous = 0 -- fast
PRAGMA secure_delete = OFF
PRAGMA writable_schema = ON
PRAGMA writable_schema(1)
PRAGMA writable_schema = RESET
PRAGMA temp.writable_schema = 1
PRAGMA trusted_schema = 1
PRAGMA foreign_keys = 0
PRAGMA defer_foreign_keys = 1
PRAGMA ignore_check_constraints = 1
PRAGMA recursive_triggers = 1
PRAGMA case_sensitive_like = 1
PRAGMA temp_store = MEMORY
PRAGMA temp_store_directory = '/tmp'
PRAGMA cache_size = 1000000
PRAGMA mmap_size = 1000000000
PRAGMA max_page_count = 10
PRAGMA locking_mode = EXCLUSIVE
PRAGMA query_only = 1
PRAGMA user_version = 5
PRAGMA user_version(5)
PRAGMA application_id = 1
PRAGMA schema_version = 99
PRAGMA schema_version
PRAGMA page_size = 512
PRAGMA encoding = 'UTF-16'
PRAGMA auto_vacuum = 1
PRAGMA incremental_vacuum
PRAGMA wal_checkpoint
PRAGMA wal_checkpoint(TRUNCATE)
PRAGMA optimize
PRAGMA shrink_memory
PRAGMA hard_heap_limit = 1
PRAGMA soft_heap_limit(1)
PRAGMA threads = 4
PRAGMA busy_timeout = 100000
PRAGMA legacy_alter_table = 1
PRAGMA database_list
PRAGMA data_version
PRAGMA lock_status
PRAGMA unknown_thing
PRAGMA
PRAGMA table_info(t) = 1
PRAGMA temp.table_info(t)
EXPLAIN PRAGMA journal_mode = DELETE
EXPLAIN QUERY PLAN PRAGMA secure_delete = 0
-- Transaction control
BEGIN
BEGIN IMMEDIATE
begin exclusive transaction
COMMIT
END
END TRANSACTION
ROLLBACK
ROLLBACK TO user_statement
SAVEPOINT x
RELEASE user_statement
RELEASE SAVEPOINT x
/* hidden */ COMMIT
; COMMIT
SELECT 1; COMMIT
SELECT 1;;COMMIT
SELECT 1; SELECT 2
EXPLAIN COMMIT
EXPLAIN QUERY PLAN ROLLBACK
INSERT OR ROLLBACK INTO t VALUES (1)
UPDATE OR ROLLBACK t SET a = 1
UPDATE OR/**/ROLLBACK t SET a = 1
CREATE TABLE mine (a UNIQUE ON CONFLICT ROLLBACK)
CREATE TABLE mine (a NOT NULL ON CONFLICT /* x */ rollback)
CREATE TABLE mine (a, PRIMARY KEY (a) ON CONFLICT ROLLBACK)
CREATE TABLE mine (a, UNIQUE (a) ON CONFLICT ROLLBACK)
CREATE TRIGGER mine AFTER INSERT ON t BEGIN SELECT RAISE(ROLLBACK, 'x'); END
CREATE TRIGGER mine AFTER INSERT ON t BEGIN INSERT OR ROLLBACK INTO t VALUES (1); END
CREATE TRIGGER mine AFTER INSERT ON t BEGIN SELECT 1; COMMIT; END
CREATE TRIGGER mine AFTER INSERT ON t BEGIN SELECT 1; END; DROP TABLE t
CREATE TRIGGER mine AFTER INSERT ON t BEGIN PRAGMA journal_mode = DELETE; END
-- Other files, other schemas, the file itself
ATTACH '/etc/passwd' AS x
ATTACH DATABASE ':memory:' AS x
ATTACH (SELECT 'x') AS y
DETACH main
DETACH DATABASE temp
VACUUM
VACUUM main
VACUUM INTO '/tmp/copy.db'
EXPLAIN VACUUM INTO '/tmp/copy.db'
ANALYZE
ANALYZE __service_kv
ANALYZE main
REINDEX
REINDEX __service_kv
CREATE TEMP TABLE mine (a)
CREATE TEMPORARY VIEW mine AS SELECT 1
CREATE TEMP TRIGGER mine AFTER INSERT ON main.__service_kv BEGIN SELECT 1; END
CREATE TABLE temp.mine (a)
CREATE TABLE "temp".sqlite_master (a)
CREATE VIEW temp.__service_kv AS SELECT 1
CREATE TABLE json_each (a)
CREATE VIEW json_tree AS SELECT 1
CREATE TABLE pragma_table_info (a)
CREATE VIRTUAL TABLE json_each USING fts5(a)
CREATE TABLE sqlite_mine (a)
INSERT INTO sqlite_master VALUES ('table', 'x', 'x', 2, 'CREATE TABLE x (a)')
UPDATE sqlite_master SET sql = '' WHERE name = '__service_kv'
UPDATE sqlite_schema SET rootpage = 2
DELETE FROM sqlite_master
UPDATE sqlite_sequence SET seq = 0
SELECT * FROM sqlite_sequence
SELECT * FROM sqlite_stat1
SELECT * FROM sqlite_stat4
SELECT * FROM 'sqlite_sequence'
DROP TABLE sqlite_master
DROP TABLE sqlite_sequence
ALTER TABLE sqlite_master RENAME TO x
INSERT INTO temp.sqlite_master VALUES (1, 2, 3, 4, 5)
-- Words out of place
SELEC 1
"SELECT" 1
DROP DATABASE main
GRANT ALL ON t TO x
'; DROP TABLE t; --
SELECT 'open
SELECT "open
SELECT [open
SELECT x'0'
SELECT 1a
SELECT \1
SELECT #1
SELECT {1}
;
-- Growth
SELECT zeroblob(1000000000)
SELECT randomblob(2000000000)
SELECT printf('%.*c', 1000000000, 'x')
SELECT printf('%1000000000d', 1)
SELECT replace(hex(zeroblob(1000000)), '0', hex(zeroblob(1000000)))
SELECT instr(zeroblob(4000000), zeroblob(2000000) || x'01')
SELECT length(trim(zeroblob(4000000), hex(zeroblob(1000000))))
SELECT 'a' LIKE hex(zeroblob(100000))
WITH RECURSIVE c(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM c) SELECT max(length(s)) FROM c
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 20000) SELECT n FROM c
