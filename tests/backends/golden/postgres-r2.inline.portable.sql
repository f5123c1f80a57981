LOAD ducklake;
LOAD postgres_scanner;
LOAD httpfs;
CREATE OR REPLACE TEMPORARY SECRET "my_catalog" (TYPE postgres, HOST 'db.example.com', PORT 5432, DATABASE 'lake', USER 'lake', PASSWORD getenv('PGPASSWORD'), SSLMODE 'require');
CREATE OR REPLACE TEMPORARY SECRET "my_bucket" (TYPE r2, KEY_ID 'AKIA0', SECRET getenv('BUCKET_SECRET'), ACCOUNT_ID '0a1b', SCOPE 'r2://acme/');
CREATE OR REPLACE TEMPORARY SECRET "lakeconf_prod" (TYPE ducklake, METADATA_PATH '', METADATA_SCHEMA 'shop', METADATA_PARAMETERS MAP {'TYPE': 'postgres', 'SECRET': 'my_catalog'}, DATA_PATH 'r2://acme/shop/');
ATTACH 'ducklake:lakeconf_prod' AS "prod" (DATA_INLINING_ROW_LIMIT 0);
USE "prod";
