-- Made by `lakeconf export duckdb prod`: names of stores and variables, no secret.
-- Run it by: duckdb -init init.sql
-- Written as what they hold now: PGHOST (metadata_backend.host), S3_KEY (storage_backend.key_id).
INSTALL ducklake; LOAD ducklake;
INSTALL postgres_scanner; LOAD postgres_scanner;
INSTALL httpfs; LOAD httpfs;
CREATE OR REPLACE TEMPORARY SECRET "lakeconf_prod__metadata" (TYPE postgres, HOST 'planted-host', DATABASE 'lake', USER 'lake', PASSWORD getenv('PGPASSWORD'));
CREATE OR REPLACE TEMPORARY SECRET "lakeconf_prod__storage" (TYPE s3, KEY_ID 'planted-2', SECRET getenv('S3_SECRET'), ENDPOINT '127.0.0.1:9000', USE_SSL false, SCOPE 's3://acme/');
CREATE OR REPLACE TEMPORARY SECRET "lakeconf_prod" (TYPE ducklake, METADATA_PATH '', METADATA_SCHEMA 'public', METADATA_PARAMETERS MAP {'TYPE': 'postgres', 'SECRET': 'lakeconf_prod__metadata'}, DATA_PATH 's3://acme/');
ATTACH 'ducklake:lakeconf_prod' AS "lake" (DATA_INLINING_ROW_LIMIT 0);
USE "lake";
